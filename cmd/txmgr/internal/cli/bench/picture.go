package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
)

// pictureFile is created before a long measurement, so that a wrong file name fails at once, and is
// moved to its place when it is complete. nil means that no picture was requested.
type pictureFile struct {
	file *os.File
	path string
}

func createPicture(path string) (*pictureFile, error) {
	if path == "" {
		return nil, nil
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, output.Usage("name a file", "--svg: %s is not a file", path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".txmgr-*.svg")
	if err != nil {
		return nil, output.Usage("name a file in a directory with write permission", "--svg: %v", err)
	}
	return &pictureFile{f, path}, nil
}

// write writes the picture and moves it to its place.
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

// discard removes the temporary file if the picture was not written.
func (d *pictureFile) discard() {
	if d != nil {
		_, _ = d.file.Close(), os.Remove(d.file.Name()) // closed and moved already if it was written
	}
}
