package wal

import (
	"os"
	"syscall"
)

// datasync puts the data of a file on the disk, and of its metadata only what is needed to read it.
func datasync(f *os.File) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = c.Control(func(fd uintptr) {
		for {
			if failed = syscall.Fdatasync(int(fd)); failed != syscall.EINTR {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	if failed != nil {
		return os.NewSyscallError("fdatasync", failed)
	}
	return nil
}
