package client

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"

	"github.com/txmgr/txmgr/txn"
)

// maxSecret is the most bytes of a token's secret, and of its file.
const maxSecret = 4096

// secret is the token's secret that a client sends. Its file is checked for every request,
// since clients are not restarted when tokens change.
type secret struct {
	file string // empty: it never changes
	log  *slog.Logger

	mu       sync.Mutex // guards the rest
	value    string
	fileInfo os.FileInfo // of the file, when it was last read
}

func newSecret(cfg Config) (*secret, error) {
	s := &secret{file: cfg.TokenFile, log: cfg.Log, value: strings.TrimSpace(cfg.Token)}
	switch {
	case s.file != "" && cfg.Token != "":
		return nil, fmt.Errorf("%w: client: both Token and TokenFile are set; want one", txn.ErrInvalid)
	case s.file == "":
		return s, checkSecret(s.value)
	}
	before := s.fileInfo
	if err := s.load(); err != nil {
		return nil, fmt.Errorf("%w: client: token file: %w", txn.ErrInvalid, err)
	}
	s.warnPermissions(before, s.fileInfo)
	return s, nil
}

// checkSecret rejects what a header cannot carry.
func checkSecret(value string) error {
	if len(value) > maxSecret || strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return fmt.Errorf("%w: client: the token is no secret of txmgr: want one word of letters and digits", txn.ErrInvalid)
	}
	return nil
}

// load reads the file.
func (s *secret) load() error {
	f, err := os.Open(s.file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSecret+2))
	if err != nil {
		return err
	}
	value := strings.TrimSpace(string(data))
	if value == "" {
		return fmt.Errorf("%w: %s is empty", txn.ErrInvalid, s.file)
	}
	if err := checkSecret(value); err != nil {
		return fmt.Errorf("%s: %w", s.file, err)
	}
	s.value, s.fileInfo = value, info
	return nil
}

// warnPermissions logs once per file mode that other users can read the file.
func (s *secret) warnPermissions(before, now os.FileInfo) {
	if now.Mode().Perm()&0o077 != 0 && (before == nil || before.Mode() != now.Mode()) {
		s.log.Warn("the token file can be read by others: chmod 600 "+s.file, "mode", now.Mode().Perm().String())
	}
}

// get returns the secret; empty if there is none. If the file cannot be read any more, the
// secret stays: the file may be about to be replaced.
func (s *secret) get() string {
	if s.file == "" {
		return s.value // never changes
	}
	value, before, now, err := s.reload()
	// Without the lock: a log that blocks delays this call only.
	if err != nil {
		s.log.Warn("the token file cannot be used; the token read before is still shown", "error", err)
	} else {
		s.warnPermissions(before, now)
	}
	return value
}

// reload reads the file again if it has changed. It returns an error only once.
func (s *secret) reload() (value string, before, now os.FileInfo, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before = s.fileInfo
	info, err := os.Stat(s.file)
	if err != nil || !info.Mode().IsRegular() || // a named pipe can be read only once
		os.SameFile(info, before) && info.ModTime().Equal(before.ModTime()) && info.Size() == before.Size() {
		return s.value, before, before, nil
	}
	if err := s.load(); err != nil {
		s.fileInfo = info // report this error once
		return s.value, before, before, err
	}
	return s.value, before, s.fileInfo, nil
}

// warnPlaintext logs that the secret is sent unencrypted.
func (s *secret) warnPlaintext(bases []string) {
	if s.value == "" {
		return
	}
	for _, base := range bases {
		u, err := url.Parse(base)
		if err != nil || u.Scheme != "http" || u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback() {
			continue
		}
		s.log.Warn("the token is sent to " + base + " without TLS, where the network can read it: use https")
		return
	}
}
