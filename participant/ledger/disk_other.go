//go:build !linux

package ledger

import "errors"

// freeBytes does not know how to ask here.
func freeBytes(string) (uint64, error) { return 0, errors.ErrUnsupported }
