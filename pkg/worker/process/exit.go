//go:build unix

package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"syscall"
)

// ExitError reports that a command ended otherwise than with code 0.
type ExitError struct {
	// Code is the exit code, or -1 when a signal ended the command.
	Code int
	// Signal is the signal that ended it, or 0.
	Signal syscall.Signal
}

func (e *ExitError) Error() string {
	if e.Signal != 0 {
		return fmt.Sprintf("the command was ended by signal %d (%v)", int(e.Signal), e.Signal)
	}
	return fmt.Sprintf("the command exited with code %d", e.Code)
}

// StartError reports that a command could not be started.
type StartError struct {
	// Path is the program.
	Path string
	Err  error
}

func (e *StartError) Error() string { return fmt.Sprintf("starting %s: %v", e.Path, e.Err) }

// Unwrap returns the system's error.
func (e *StartError) Unwrap() error { return e.Err }

// ErrGuard is matched by errors about the guard itself: it could not be
// started, was killed, or did not answer. What it guarded has been killed.
var ErrGuard = errors.New("the guard process failed")

// ErrLeft is returned when the command was killed in time, but the kernel has
// not got rid of everything of it by the deadline, because the machine is
// overloaded or a process hangs in a system call. Such processes do not return
// to their program. The guard goes on watching them.
var ErrLeft = errors.New("killed processes of the command are still there at the deadline")

// ExitCode translates what [Runner.Handle] returned into the exit code that a
// wrapper hands on, as shells do: the command's own code; 128 plus the signal
// that ended it; 127 when it does not exist, 126 when it cannot be executed;
// 1 for any other error and 0 for none.
func ExitCode(err error) int {
	var exit *ExitError
	var start *StartError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		if exit.Signal != 0 {
			return 128 + int(exit.Signal)
		}
		return exit.Code
	case errors.As(err, &start):
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, exec.ErrNotFound) {
			return 127
		}
		return 126
	default:
		return 1
	}
}
