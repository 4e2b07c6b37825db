package health

import (
	"fmt"
	"os"
	"syscall"
)

// diskSpace returns how many bytes of the file system of dir are left for this process, and how
// many it has.
func diskSpace(dir string) (left, size uint64, err error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, 0, fmt.Errorf("statfs %s: %w", dir, err)
	}
	block := uint64(st.Bsize) // of another type on other processors
	return st.Bavail * block, st.Blocks * block, nil
}

// descriptors returns how many files this process has open, and how many it may have open.
func descriptors() (used int, limit uint64, err error) {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return 0, 0, fmt.Errorf("limit of open files: %w", err)
	}
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return 0, 0, fmt.Errorf("open files: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return 0, 0, fmt.Errorf("open files: %w", err)
	}
	return len(names) - 1, r.Cur, nil // without the directory itself
}
