package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

const lockRetry = 25 * time.Millisecond

// lock takes the lock that guards path and everything Open does around it. The lock file is
// separate, and is never renamed or removed: bbolt's lock is on the data file, and a process that
// waits for that one while the holder replaces the file, as every Set does, would end up with the
// lock on a file that no longer has a name.
func lock(path string, timeout time.Duration) (*os.File, error) {
	f, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		dir := filepath.Dir(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("data directory %s does not exist: %w", dir, err)
		}
		return nil, fmt.Errorf("data directory %s is not writable: %w", dir, err)
	}
	deadline := time.Now().Add(timeout)
	for {
		ok, err := tryLock(f)
		if ok {
			return f, nil
		}
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		if time.Until(deadline) < lockRetry {
			f.Close()
			return nil, fmt.Errorf("%w: %s is locked (waited %v); stop the other process or give this one a directory of its own",
				ErrInUse, f.Name(), timeout)
		}
		time.Sleep(lockRetry)
	}
}
