package rig

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Flushes repeatedly writes a page to a file in dir and syncs it, as a database does with its log,
// and returns how long the disk took to make each durable.
func Flushes(dir string, times int) (took *Latencies, err error) {
	file, err := os.CreateTemp(dir, "flush-")
	if err != nil {
		return nil, fmt.Errorf("measure the disk: %w", err)
	}
	defer func() { _, _ = file.Close(), os.Remove(file.Name()) }()
	page := make([]byte, 4096)
	took = new(Latencies)
	for i := range max(times, 1) {
		began := time.Now()
		if _, err = file.WriteAt(page, int64(i%64)*int64(len(page))); err == nil {
			err = unix.Fdatasync(int(file.Fd()))
		}
		if err != nil {
			return nil, fmt.Errorf("measure the disk: %w", err)
		}
		took.Record(time.Since(began))
	}
	return took, nil
}
