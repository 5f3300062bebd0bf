package demo

import (
	"os/exec"
	"syscall"
)

// dieWithParent sees to it that no candidate outlives a demo that is killed,
// and that the terminal's Ctrl-C goes to the demo alone.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
