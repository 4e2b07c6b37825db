package testdb

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// serverDir is the directory of one server. Its file "owner" is locked as long as the program that
// created it runs, so that the directories of killed programs can be told from those in use.
type serverDir struct {
	path  string
	owner *os.File
}

// minOrphanAge is the minimum age of a directory without an owner for its removal: its creator may
// be about to lock it.
const minOrphanAge = time.Minute

// newDir creates a directory, owned by the account that the server runs under, and removes the
// directories of programs that no longer run.
func newDir(parent, name string, a *account) (*serverDir, error) {
	if parent == "" {
		parent = os.TempDir()
	}
	removeOrphans(filepath.Join(parent, "txmgr-"+name+"-*"))
	path, err := os.MkdirTemp(parent, "txmgr-"+name+"-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for %s: %w", name, err)
	}
	d := &serverDir{path: path}
	if d.owner, err = os.Create(filepath.Join(path, "owner")); err == nil {
		err = errors.Join(tryLock(d.owner), a.own(path))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a directory for %s: %w", name, err), d.remove())
	}
	return d, nil
}

// remove removes the directory. It may be repeated.
func (d *serverDir) remove() error {
	err := os.RemoveAll(d.path)
	if d.owner != nil {
		_ = d.owner.Close() // nothing was written to it
	}
	return err
}

// removeOrphans ignores errors: a directory that it cannot remove does not prevent a new one.
func removeOrphans(pattern string) {
	all, _ := filepath.Glob(pattern) // the pattern is well-formed
	for _, path := range all {
		owner, err := os.OpenFile(filepath.Join(path, "owner"), os.O_RDWR, 0)
		if err != nil {
			continue // in use by another program
		}
		info, err := owner.Stat()
		if err == nil && time.Since(info.ModTime()) > minOrphanAge && tryLock(owner) == nil {
			_ = os.RemoveAll(path)
		}
		_ = owner.Close()
	}
}
