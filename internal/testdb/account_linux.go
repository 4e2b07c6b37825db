package testdb

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// account is the user that a server runs as. Database servers refuse to run as
// root.
type account struct{ credential *syscall.Credential } // nil: as ourselves

// newAccount returns the first of the accounts that exists, if this process runs as root.
func newAccount(names ...string) (*account, error) {
	if os.Geteuid() != 0 {
		return &account{}, nil
	}
	for _, name := range names {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
		gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
		if errUID != nil || errGID != nil || uid == 0 {
			continue
		}
		return &account{&syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
	}
	return nil, fmt.Errorf("a database server does not run as root, and there is none of the accounts %q to run it as; make one: useradd --system %s", names, names[0])
}

// sysProcAttr ends a server with this process, and keeps it out of its process group: an interrupt
// at the terminal is for this process to handle.
func (a *account) sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: a.credential, Setpgid: true, Pdeathsig: syscall.SIGQUIT}
}

// own makes the account the owner of a directory.
func (a *account) own(dir string) error {
	if a.credential == nil {
		return nil
	}
	if err := os.Chown(dir, int(a.credential.Uid), int(a.credential.Gid)); err != nil {
		return fmt.Errorf("give %s to the server's account: %w", dir, err)
	}
	return nil
}
