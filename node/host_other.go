//go:build !linux

package node

import "errors"

// diskSpace is known on Linux alone.
func diskSpace(string) (left, size uint64, err error) { return 0, 0, errors.ErrUnsupported }

// descriptors is known on Linux alone.
func descriptors() (used int, limit uint64, err error) { return 0, 0, errors.ErrUnsupported }
