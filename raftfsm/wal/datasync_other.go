//go:build !linux

package wal

import "os"

// datasync puts a file on the disk.
func datasync(f *os.File) error { return f.Sync() }
