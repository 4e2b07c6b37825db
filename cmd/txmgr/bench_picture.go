package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
)

// pictureFile is a file that is begun before a long measurement, so that it cannot fail for its name afterwards, and takes its
// place when it is whole. nil is none.
type pictureFile struct {
	file *os.File
	path string
}

func createPicture(path string) (*pictureFile, error) {
	if path == "" {
		return nil, nil
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, output.Usage("name a file", "--svg: %s is no file", path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".txmgr-*.svg")
	if err != nil {
		return nil, output.Usage("name a file in a directory that you may write", "--svg: %v", err)
	}
	return &pictureFile{f, path}, nil
}

// write writes the picture and puts it into its place.
func (d *pictureFile) write(svg string) error {
	if d == nil {
		return nil
	}
	_, err := d.file.WriteString(svg)
	err = errors.Join(err, d.file.Chmod(0o644), d.file.Close())
	if err == nil {
		err = os.Rename(d.file.Name(), d.path)
	}
	if err != nil {
		return fmt.Errorf("write the picture %s: %w", d.path, err)
	}
	return nil
}

// discard takes away what is left when the picture was not kept.
func (d *pictureFile) discard() {
	if d != nil {
		_, _ = d.file.Close(), os.Remove(d.file.Name()) // closed and gone if it was kept
	}
}
