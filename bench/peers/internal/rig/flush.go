package rig

import (
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Flush is how long a disk takes to make a small write durable.
type Flush struct {
	P50 time.Duration `json:"p50_ns"`
	P99 time.Duration `json:"p99_ns"`
}

// Flushes writes a page to a file in dir and has it synchronised, again and again, as a database does with its log.
func Flushes(dir string, times int) (f Flush, err error) {
	file, err := os.CreateTemp(dir, "flush-")
	if err != nil {
		return f, fmt.Errorf("measure the disk: %w", err)
	}
	defer func() { _, _ = file.Close(), os.Remove(file.Name()) }()
	page := make([]byte, 4096)
	took := make([]time.Duration, max(times, 1))
	for i := range took {
		began := time.Now()
		if _, err = file.WriteAt(page, int64(i%64)*int64(len(page))); err == nil {
			err = unix.Fdatasync(int(file.Fd()))
		}
		if err != nil {
			return f, fmt.Errorf("measure the disk: %w", err)
		}
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return Flush{P50: took[len(took)/2], P99: took[len(took)*99/100]}, nil
}
