package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// stallTimeout is how long a download may make no progress before it is given up.
const stallTimeout = 30 * time.Second

// errIncompleteCopy: the copy differs from the size or checksum that the server sent.
var errIncompleteCopy = errors.New("the copy is not whole")

// Backup implements [admin.Cluster].
func (c adminCalls) Backup(ctx context.Context, w io.Writer) (admin.Backup, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	var b admin.Backup
	opening, over := context.WithTimeout(ctx, c.cfg.RequestTimeout)
	defer over()
	err := c.retryUntil(opening, "snapshot", txn.ID{}, func() error {
		attempt, cancel := context.WithCancel(ctx)
		defer cancel()
		attempt, connected := traced(attempt)
		e, n := c.currentEndpoint()
		k := &download{to: w, cancel: cancel}
		err := k.run(attempt, e)
		err = c.handleTryError(e, n, connected.Load(), err)
		if b = k.backup; k.written > 0 && (isRetryable(err) || isTransportError(err)) {
			return &brokenCopyError{k.written, err}
		}
		return err
	})
	if broken := (*brokenCopyError)(nil); errors.As(err, &broken) {
		err = newError("snapshot", txn.ID{}, fmt.Errorf("%w: %s", txn.ErrUnavailable, broken))
	}
	return b, err
}

// brokenCopyError is unavailability that must not be retried: the writer has got the
// beginning of a copy.
type brokenCopyError struct {
	written int64
	why     error
}

// Error says how many bytes were copied.
func (e *brokenCopyError) Error() string {
	return fmt.Sprintf("the copy broke off after %d bytes: %v", e.written, e.why)
}

// download is one attempt to copy the state.
type download struct {
	to      io.Writer
	cancel  context.CancelFunc
	written int64
	backup  admin.Backup
}

func (k *download) run(ctx context.Context, e *endpoint) error {
	idle := time.AfterFunc(stallTimeout, k.cancel)
	defer idle.Stop()
	s, err := e.backup.Snapshot(ctx, &txmgrv1.SnapshotRequest{})
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // everything needed was read
	sum := sha256.New()
	var end *txmgrv1.Backup
	for s.Receive() {
		idle.Reset(stallTimeout)
		m := s.Msg()
		if end != nil {
			return fmt.Errorf("%w: something follows its end", errIncompleteCopy)
		}
		end = m.GetBackup()
		_, _ = sum.Write(m.GetData()) // never fails
		n, err := k.to.Write(m.GetData())
		k.written += int64(n)
		if err != nil {
			return fmt.Errorf("write the copy: %w", err)
		}
	}
	if err := s.Err(); err != nil {
		return err
	}
	if end == nil {
		return fmt.Errorf("%w: its end is missing", errIncompleteCopy)
	}
	if k.backup, err = wire.ToBackup(end); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != k.backup.SHA256 || k.written != k.backup.Bytes {
		return fmt.Errorf("%w: %d bytes with SHA-256 %s came, %d with %s were sent", errIncompleteCopy, k.written, got, k.backup.Bytes, k.backup.SHA256)
	}
	return nil
}
