//go:build unix

package testdb

import (
	"os"
	"syscall"
)

// tryLock locks a file until it is closed, or its program ends. It fails if another program has
// locked it.
func tryLock(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
