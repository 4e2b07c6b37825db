package tour

import "syscall"

// attributes let the coordinator die with the tour, and keep an interrupt that is
// typed at the terminal away from it: the tour ends it itself.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
