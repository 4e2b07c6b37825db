//go:build !linux

package demo

import "syscall"

// sysProcAttr are the defaults of the system: here a coordinator outlives a demo that is killed.
func sysProcAttr() *syscall.SysProcAttr { return nil }
