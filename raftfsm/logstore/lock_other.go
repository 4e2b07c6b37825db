//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package logstore

import (
	"errors"
	"os"
)

// tryLock refuses: without a lock two processes could write to one file.
func tryLock(*os.File) (bool, error) { return false, errors.ErrUnsupported }
