//go:build !linux

package demo

import "syscall"

// attributes are the system's own: elsewhere a coordinator outlives a tour that
// is killed.
func attributes() *syscall.SysProcAttr { return nil }
