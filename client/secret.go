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

// secret is what a client shows to be let in; its file is looked at for every
// request, since whoever changes tokens does not restart every client.
type secret struct {
	file string // empty: it never changes
	log  *slog.Logger

	mu       sync.Mutex // guards the rest
	value    string
	fileInfo os.FileInfo // of the file, when it was read last
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

// checkSecret refuses what cannot be a header.
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

// warnPermissions logs that others can read the file, once for each mode.
func (s *secret) warnPermissions(before, now os.FileInfo) {
	if now.Mode().Perm()&0o077 != 0 && (before == nil || before.Mode() != now.Mode()) {
		s.log.Warn("the token file can be read by others: chmod 600 "+s.file, "mode", now.Mode().Perm().String())
	}
}

// get gives the secret; empty when there is none. A file that cannot be read any
// more changes nothing: it may be about to be replaced.
func (s *secret) get() string {
	if s.file == "" {
		return s.value // never changes
	}
	value, before, now, err := s.reload()
	// Without the lock: a log that takes nothing more holds up this call alone.
	if err != nil {
		s.log.Warn("the token file cannot be used; the token read before is still shown", "error", err)
	} else {
		s.warnPermissions(before, now)
	}
	return value
}

// reload reads the file again if it has changed. An error is told once.
func (s *secret) reload() (value string, before, now os.FileInfo, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before = s.fileInfo
	info, err := os.Stat(s.file)
	if err != nil || !info.Mode().IsRegular() || // a pipe says what it has to say once
		os.SameFile(info, before) && info.ModTime().Equal(before.ModTime()) && info.Size() == before.Size() {
		return s.value, before, before, nil
	}
	if err := s.load(); err != nil {
		s.fileInfo = info // said once
		return s.value, before, before, err
	}
	return s.value, before, s.fileInfo, nil
}

// warnPlaintext says that the secret can be read on its way.
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
