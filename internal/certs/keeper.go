package certs

import (
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"
)

// lookEvery is how often, at most, handshakes look whether files have changed.
const lookEvery = time.Second

// keeper holds the material of the moment and renews it.
type keeper struct {
	files  Files
	check  func(*material) error // what its user wants besides; nil means nothing
	logger *slog.Logger

	mu     sync.Mutex // guards all below
	now    *material
	looked time.Time
	seen   []os.FileInfo // of the files as they were when last read; nil where there is none
}

func open(f Files, logger *slog.Logger, check func(*material) error) (*keeper, error) {
	if logger == nil {
		logger = slog.Default()
	}
	k := &keeper{files: f, check: check, logger: logger}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k, k.readLocked()
}

// Reload reads the files now, as on SIGHUP. When they cannot be used the error says
// why, and what was there before stays in use.
func (k *keeper) Reload() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.readLocked(); err != nil {
		return fmt.Errorf("reading certificates again: %w; the old ones stay in use", err)
	}
	return nil
}

// Expires says until when the own certificate is good; zero when there is none.
func (k *keeper) Expires() time.Time {
	if m := k.current(); m.cert != nil {
		return m.cert.Leaf.NotAfter
	}
	return time.Time{}
}

// current gives what to use for a handshake that begins now.
func (k *keeper) current() *material {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := time.Now(); now.Sub(k.looked) >= lookEvery {
		k.looked = now
		if !slices.EqualFunc(k.stat(), k.seen, same) {
			// Once: broken files are read again only when they change again.
			if err := k.readLocked(); err != nil {
				k.logger.Warn("the new certificate files cannot be used; the old ones stay in use", "error", err)
			}
		}
	}
	return k.now
}

// readLocked looks at the files before it reads them, so that a change in between is
// found the next time.
func (k *keeper) readLocked() error {
	k.looked, k.seen = time.Now(), k.stat()
	m, err := load(k.files)
	if err == nil && k.check != nil {
		err = k.check(m)
	}
	if err != nil {
		return err
	}
	if m.exposed {
		k.logger.Warn("others than the owner can read or change the private key: chmod 600", "file", k.files.Key)
	}
	if k.now != nil && m.cert != nil {
		k.logger.Info("certificates were read again", "file", k.files.Cert, "expires", m.cert.Leaf.NotAfter)
	}
	k.now = m
	return nil
}

func (k *keeper) stat() []os.FileInfo {
	var infos []os.FileInfo
	for _, path := range k.files.paths() {
		info, err := os.Stat(path)
		if err != nil {
			info = nil
		}
		infos = append(infos, info)
	}
	return infos
}

func same(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && a.Mode() == b.Mode()
}
