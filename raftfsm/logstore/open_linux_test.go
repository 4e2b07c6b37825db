package logstore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// Root may write anywhere, so the thread takes the permissions of an unprivileged user for its file
// accesses. It ends with the goroutine.
func TestOpenReadOnlyDirectory(t *testing.T) {
	path := newPath(t)
	dir := filepath.Dir(path)
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o555)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o755) })
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		const nobody = 65534
		syscall.RawSyscall(syscall.SYS_SETFSUID, nobody, 0, 0)
		_, err := Open(path, Options{})
		result <- err
	}()
	if err := <-result; !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), dir+" is not writable") {
		t.Errorf("%v, want fs.ErrPermission and the directory", err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 0 {
		t.Errorf("something was left: %v, %v", names, err)
	}
}
