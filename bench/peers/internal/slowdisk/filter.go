package slowdisk

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// archs are the machines whose numbers of system calls this program knows: its own.
var archs = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// The places of the number of a system call and of the machine in what the filter sees.
const (
	offsetNumber = 0
	offsetArch   = 4
)

// install puts the filter on all threads of this process, and returns the file on which the kernel
// tells of the calls. It cannot be removed, and processes that are started inherit it.
func install() (notices int, err error) {
	arch, ok := archs[runtime.GOARCH]
	if !ok {
		return 0, fmt.Errorf("delays of the disk are for amd64 and arm64, not for %s", runtime.GOARCH)
	}
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offsetArch},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: arch, Jf: 4},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offsetNumber},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_FSYNC, Jt: 1},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_FDATASYNC, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	// Without the privilege of an administrator, a filter needs the promise never to gain one.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return 0, fmt.Errorf("delay the disk: %w", err)
	}
	// A call that waits is not interrupted by signals: it would be begun, and delayed, again.
	flags := unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_TSYNC |
		unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, uintptr(flags), uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(filter)
	if errno != 0 {
		return 0, fmt.Errorf("delay the disk: this needs a kernel of 5.19 or later with seccomp: %w", errno)
	}
	return int(fd), nil
}

// notice is struct seccomp_notif: a call that waits.
type notice struct {
	id     uint64
	pid    uint32
	flags  uint32
	number int32
	arch   uint32
	ip     uint64
	args   [6]uint64
}

// answer is struct seccomp_notif_resp.
type answer struct {
	id    uint64
	value int64
	error int32
	flags uint32
}

// receive returns the next call that waits; zero if its thread has been killed meanwhile.
func receive(notices int) (id uint64, err error) {
	var n notice
	err = ioctl(notices, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n))
	return n.id, err
}

// proceed lets a call proceed.
func proceed(notices int, id uint64) error {
	return ioctl(notices, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&answer{id: id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}))
}

// ioctl ignores that the thread that made the call has ended.
func ioctl(fd int, request uintptr, arg unsafe.Pointer) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg))
	if errno == 0 || errors.Is(errno, unix.ENOENT) || errors.Is(errno, unix.EINTR) {
		return nil
	}
	return os.NewSyscallError("ioctl of seccomp", errno)
}
