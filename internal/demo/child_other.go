//go:build !linux

package demo

import (
	"os/exec"
	"syscall"
)

// dieWithParent keeps the terminal's Ctrl-C to the demo alone. Only Linux can
// end a child with its parent.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}
