//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package logstore

import (
	"errors"
	"os"
	"syscall"
)

// tryLock takes the lock on f without waiting and reports whether it got it. The kernel releases it
// when f is closed, at the latest when the process has ended.
func tryLock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		return false, nil
	}
	return err == nil, err
}
