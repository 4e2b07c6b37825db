//go:build !linux

package health

import "errors"

// diskSpace is supported on Linux only.
func diskSpace(string) (left, size uint64, err error) { return 0, 0, errors.ErrUnsupported }

// descriptors is supported on Linux only.
func descriptors() (used int, limit uint64, err error) { return 0, 0, errors.ErrUnsupported }
