package auth

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// rootToken is the secret in a file that always has the role admin: the first token of a
// cluster, and the way in when all others are lost. A nil one matches no secret.
type rootToken struct {
	path string
	log  *slog.Logger

	mu        sync.Mutex // guards everything below
	secret    string
	fileInfo  os.FileInfo // the file as it was read
	lastCheck time.Time   // when the file was last checked
	failing   bool        // the last check could not read the file
}

// minRootToken is the length of the shortest secret that a root token file may have, and
// maxRootFile the most bytes of the file that are read.
const (
	minRootToken = 16
	maxRootFile  = 4096
)

// rootCheckInterval is the least time between two checks of the file.
const rootCheckInterval = time.Second

// CheckRootToken returns the error that [New] would return for a root token file.
func CheckRootToken(path string) error {
	_, err := openRootToken(path, nil)
	return err
}

func openRootToken(path string, log *slog.Logger) (*rootToken, error) {
	r := &rootToken{path: path, log: log, lastCheck: time.Now()}
	if err := r.read(); err != nil {
		return nil, fmt.Errorf("%w: server: root token file: %w", txn.ErrInvalid, err)
	}
	return r, nil
}

// read reads the file; an error changes nothing.
func (r *rootToken) read() error {
	f, err := os.Open(r.path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxRootFile))
	if err != nil {
		return err
	}
	secret := strings.TrimSpace(string(data))
	if len(secret) < minRootToken || len(secret) > maxSecret || strings.ContainsAny(secret, " \t\r\n") {
		return fmt.Errorf("%s: want one word of %d to %d letters, such as openssl rand -hex 24 makes", r.path, minRootToken, maxSecret)
	}
	r.secret, r.fileInfo = secret, info
	return nil
}

// matches reports whether secret is the one in the file. It checks the file if the last check
// is rootCheckInterval ago; a file that is missing or invalid leaves the secret as it was.
func (r *rootToken) matches(secret string, now time.Time) bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.lastCheck) >= rootCheckInterval {
		r.lastCheck = now
		r.refresh()
	}
	return equalSecrets(r.secret, secret)
}

func (r *rootToken) refresh() {
	info, err := os.Stat(r.path)
	if err == nil && !info.Mode().IsRegular() {
		return // a named pipe can be read once, and reading it again would block
	}
	if err == nil && os.SameFile(info, r.fileInfo) && info.ModTime().Equal(r.fileInfo.ModTime()) && info.Size() == r.fileInfo.Size() {
		r.failing = false
		return
	}
	if err == nil {
		err = r.read()
	}
	switch {
	case err == nil:
		r.log.Info("root token read again", "file", r.path)
	case !r.failing:
		r.log.Warn("root token not read again: the old one stays", "file", r.path, "error", err)
	}
	r.failing = err != nil
}
