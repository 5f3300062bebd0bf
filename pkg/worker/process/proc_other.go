//go:build unix && !linux

package process

import (
	"os"
	"syscall"
)

func disguise() {}

func hurry() (calm func(pid int)) { return func(int) {} }

func adoptOrphans() bool { return false }

func commandAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func guardPath() (string, error) { return os.Executable() }

type proc struct{ pid int }

func (proc) signal(syscall.Signal) {}

// isStill cannot tell, and trusts that process numbers are not given away so
// soon.
func (p proc) isStill() bool { return p.pid != 0 }

func readProc(pid int) (proc, bool) { return proc{pid: pid}, true }

func descendants(int) ([]proc, bool) { return nil, false }

// signalDescendants has nothing to find descendants with: the command's group
// is all that is ended.
func signalDescendants(syscall.Signal) bool { return false }

func withMarker(string) []proc { return nil }
