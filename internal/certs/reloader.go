package certs

import (
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"
)

// statInterval is how often, at most, handshakes look whether files have changed.
const statInterval = time.Second

// reloader holds the material of the moment and renews it.
type reloader struct {
	files  Files
	check  func(*material) error // what its user wants besides; nil means nothing
	logger *slog.Logger

	mu        sync.Mutex // guards all below
	loaded    *material
	lastStat  time.Time
	fileInfos []os.FileInfo // of the files as they were when last read; nil where there is none
}

func open(f Files, logger *slog.Logger, check func(*material) error) (*reloader, error) {
	if logger == nil {
		logger = slog.Default()
	}
	k := &reloader{files: f, check: check, logger: logger}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k, k.readLocked()
}

// Reload reads the files now, as on SIGHUP. When they cannot be used the error says
// why, and what was there before stays in use.
func (k *reloader) Reload() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.readLocked(); err != nil {
		return fmt.Errorf("reading certificates again: %w; the old ones stay in use", err)
	}
	return nil
}

// Expires says until when the own certificate is good; zero when there is none.
func (k *reloader) Expires() time.Time {
	if m := k.current(); m.cert != nil {
		return m.cert.Leaf.NotAfter
	}
	return time.Time{}
}

// current gives what to use for a handshake that begins now.
func (k *reloader) current() *material {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := time.Now(); now.Sub(k.lastStat) >= statInterval {
		k.lastStat = now
		if !slices.EqualFunc(k.stat(), k.fileInfos, sameFile) {
			// Once: broken files are read again only when they change again.
			if err := k.readLocked(); err != nil {
				k.logger.Warn("the new certificate files cannot be used; the old ones stay in use", "error", err)
			}
		}
	}
	return k.loaded
}

// readLocked looks at the files before it reads them, so that a change in between is
// found the next time.
func (k *reloader) readLocked() error {
	k.lastStat, k.fileInfos = time.Now(), k.stat()
	m, err := load(k.files)
	if err == nil && k.check != nil {
		err = k.check(m)
	}
	if err != nil {
		return err
	}
	if m.keyReadable {
		k.logger.Warn("others than the owner can read or change the private key: chmod 600", "file", k.files.Key)
	}
	if k.loaded != nil && m.cert != nil {
		k.logger.Info("certificates were read again", "file", k.files.Cert, "expires", m.cert.Leaf.NotAfter)
	}
	k.loaded = m
	return nil
}

func (k *reloader) stat() []os.FileInfo {
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

func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && a.Mode() == b.Mode()
}
