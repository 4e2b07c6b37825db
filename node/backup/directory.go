package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/txmgr/txmgr/txn"
)

// prepareEmptyDir makes sure that the directory exists and is empty; undo removes what was
// created for that.
func prepareEmptyDir(dir string) (undo func() error, err error) {
	found, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range found {
		if e.Name() != "lost+found" { // dir is a file system of its own
			return nil, fmt.Errorf("%w: the directory has to be empty or missing, and there is %s", txn.ErrConflict, e.Name())
		}
	}
	made := "" // the uppermost directory that is missing
	for d := filepath.Clean(dir); ; d = filepath.Dir(d) {
		if _, err := os.Stat(d); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		made = d
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return func() error {
		if made == "" {
			return nil
		}
		return os.RemoveAll(made)
	}, nil
}

// restored are the names of what a restoration makes. log.db comes last: a node without it refuses to start where there
// is a snapshot, or a log in the segments.
var restored = []string{"snapshots", "log.db.segments", "log.db"}

// moveIntoPlace moves the restored files to their place.
func moveIntoPlace(staging, dir string) (err error) {
	for _, name := range restored {
		if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(fmt.Errorf("%w: %s was made meanwhile", txn.ErrConflict, filepath.Join(dir, name)), err)
		}
	}
	for i, name := range restored {
		if err = os.Rename(filepath.Join(staging, name), filepath.Join(dir, name)); err == nil {
			err = syncDirectory(dir)
			i++
		}
		if err != nil {
			for i--; i >= 0; i-- { // only what was moved
				err = errors.Join(err, os.RemoveAll(filepath.Join(dir, restored[i])))
			}
			return err
		}
	}
	return syncDirectory(filepath.Dir(filepath.Clean(dir)))
}

// syncDirectory makes the names in a directory durable.
func syncDirectory(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
