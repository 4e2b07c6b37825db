package backup

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// Write writes a backup of a snapshot, which has header.Snapshot bytes.
func Write(ctx context.Context, w io.Writer, header Header, snapshot io.Reader) (b admin.Backup, err error) {
	text, err := json.Marshal(header)
	if err != nil {
		return b, err
	}
	sum := sha256.New()
	both := io.MultiWriter(w, sum)
	begin := append([]byte(magic), version)
	begin = append(binary.LittleEndian.AppendUint32(begin, uint32(len(text))), text...)
	if _, err := both.Write(begin); err != nil {
		return b, fmt.Errorf("writing the backup: %w", err)
	}
	n, err := io.Copy(both, contextReader{ctx, snapshot})
	switch {
	case err != nil:
		return b, fmt.Errorf("writing the backup: %w", err)
	case n != header.Snapshot:
		return b, fmt.Errorf("writing the backup: the snapshot has %d bytes; want %d", n, header.Snapshot)
	}
	end := sum.Sum(nil)
	if _, err := both.Write(end); err != nil {
		return b, fmt.Errorf("writing the backup: %w", err)
	}
	return header.show(int64(len(begin))+n+int64(len(end)), sum.Sum(nil)), nil
}

// contextReader is a reader that fails once its context has ended.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (i contextReader) Read(p []byte) (int, error) {
	if i.ctx.Err() != nil {
		return 0, fmt.Errorf("%w: %w", txn.ErrUnavailable, context.Cause(i.ctx))
	}
	return i.r.Read(p)
}
