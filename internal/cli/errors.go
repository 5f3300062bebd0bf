package cli

import (
	"errors"
	"fmt"
)

// Exit codes that every command shares.
const (
	exitFailure = 1
	exitUsage   = 2
)

// coded is an error with an exit code of its own. A nil err prints nothing.
type coded struct {
	code int
	err  error
}

func (e *coded) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *coded) Unwrap() error { return e.err }

// Usage marks err as bad input, which ends the process with code 2. An error
// of several lines is several faults, one a line. A nil err stays nil.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return &coded{code: exitUsage, err: err}
}

// Usagef is Usage for a new error in the manner of fmt.Errorf.
func Usagef(format string, args ...any) error {
	return Usage(fmt.Errorf(format, args...))
}

// Exit gives err an exit code of its own. With a nil err the process ends with
// the code and prints nothing: so a worker passes on its child's code.
func Exit(code int, err error) error {
	if code == 0 && err == nil {
		return nil
	}
	return &coded{code: code, err: err}
}

// exitCode is the code that err asks for, and whether there is a message to
// print.
func exitCode(err error) (code int, speaks bool) {
	if err == nil {
		return 0, false
	}
	if c, ok := errors.AsType[*coded](err); ok {
		return c.code, c.err != nil
	}
	return exitFailure, true
}
