package demo

import "syscall"

// sysProcAttr makes the coordinator end when the demo dies, and keeps the terminal's interrupt from
// it: the demo stops it itself.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
