package certs

import (
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"
)

// statInterval is the least time between two checks, by handshakes, whether files have changed.
const statInterval = time.Second

// reloader holds the current material and renews it.
type reloader struct {
	files  Files
	check  func(*material) error // an additional check; nil means none
	logger *slog.Logger

	mu        sync.Mutex // guards all below
	loaded    *material
	lastStat  time.Time
	fileInfos []os.FileInfo // of the files when they were last read; nil for a missing one
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

// Reload reads the files now, as on SIGHUP. If they cannot be used it returns the reason, and
// the previous ones stay in use.
func (k *reloader) Reload() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.readLocked(); err != nil {
		return fmt.Errorf("reading certificates again: %w; the old ones stay in use", err)
	}
	return nil
}

// Expires returns the end of the own certificate's validity; zero if there is none.
func (k *reloader) Expires() time.Time {
	if m := k.current(); m.cert != nil {
		return m.cert.Leaf.NotAfter
	}
	return time.Time{}
}

// current returns the material for a handshake that begins now.
func (k *reloader) current() *material {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := time.Now(); now.Sub(k.lastStat) >= statInterval {
		k.lastStat = now
		if !slices.EqualFunc(k.stat(), k.fileInfos, sameFile) {
			// Logged once: broken files are read again only when they change again.
			if err := k.readLocked(); err != nil {
				k.logger.Warn("the new certificate files cannot be used; the old ones stay in use", "error", err)
			}
		}
	}
	return k.loaded
}

// readLocked reads the files' metadata before their contents, so that the next check finds a
// change in between.
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
