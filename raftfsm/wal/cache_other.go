//go:build !(linux && (amd64 || arm64 || riscv64))

package wal

import "os"

// ForgetCached does nothing where there is no portable way to do it.
func ForgetCached(*os.File) {}
