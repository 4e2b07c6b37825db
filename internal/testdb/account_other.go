//go:build !linux

package testdb

import "syscall"

// account is the user that a server runs as: that of this process. As root, the server refuses to
// run.
type account struct{}

func newAccount(...string) (*account, error) { return &account{}, nil }

func (*account) sysProcAttr() *syscall.SysProcAttr { return nil }

func (*account) own(string) error { return nil }
