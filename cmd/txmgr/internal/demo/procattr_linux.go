package demo

import "syscall"

// sysProcAttr let the coordinator die with the tour, and keep an interrupt that is
// typed at the terminal away from it: the tour ends it itself.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
