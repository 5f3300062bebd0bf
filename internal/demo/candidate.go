package demo

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// candidate is one of the three. It is started anew after it was stopped or
// killed, each time under another identity, as a restarted pod would be.
type candidate struct {
	name  string
	start func(id string) (*exec.Cmd, error)

	lives int
	id    string
	cmd   *exec.Cmd
	done  chan struct{}
}

// run starts the process.
func (c *candidate) run() error {
	c.lives++
	c.id = fmt.Sprintf("%s.%d", c.name, c.lives)
	cmd, err := c.start(c.id)
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start candidate %s: %w", c.id, err)
	}
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	c.cmd, c.done = cmd, done
	return nil
}

// end sends a signal that ends the process, and waits for it.
func (c *candidate) end(s syscall.Signal) error {
	if c.cmd == nil {
		return nil
	}
	if err := c.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal candidate %s: %w", c.id, err)
	}
	<-c.done
	c.cmd = nil
	return nil
}

// command returns the function that makes a candidate's process: this program
// again, whose log goes to a file in dir.
func command(dir, name string, env, args []string) func(id string) (*exec.Cmd, error) {
	return func(id string) (*exec.Cmd, error) {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find this program: %w", err)
		}
		log, err := os.OpenFile(logFile(dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, err
		}
		cmd := exec.Command(self, append([]string{"run", "--id", id}, args...)...) // #nosec G204 -- this very program
		cmd.Env = append(os.Environ(), env...)
		cmd.Stderr = log
		dieWithParent(cmd)
		return cmd, nil
	}
}

func logFile(dir, name string) string { return filepath.Join(dir, name+".log") }

// lastLine returns what a log ends with.
func lastLine(file string) string {
	text, err := os.ReadFile(file) // #nosec G304 -- the demo's own file
	if err != nil {
		return err.Error()
	}
	text = bytes.TrimRight(text, "\n")
	return string(text[bytes.LastIndexByte(text, '\n')+1:])
}
