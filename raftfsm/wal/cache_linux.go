//go:build linux && (amd64 || arm64 || riscv64)

package wal

import (
	"os"
	"syscall"
)

// ForgetCached asks the kernel to drop its clean pages of f, so that the next read comes from the disk. It is
// advice: an error changes nothing but where the bytes come from.
func ForgetCached(f *os.File) {
	const posixFadvDontneed = 4
	_, _, _ = syscall.Syscall6(syscall.SYS_FADVISE64, f.Fd(), 0, 0, posixFadvDontneed, 0, 0)
}
