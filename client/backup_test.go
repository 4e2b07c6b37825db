package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/server"
	"github.com/txmgr/txmgr/server/servertest"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// A backup arrives complete, in any number of messages, from a follower too.
func TestBackup(t *testing.T) {
	f := newTestCluster(t, 2)
	f.leader.Store(1)
	data := bytes.Repeat([]byte("state "), 1<<20)
	f.SetBackup(data)
	var got bytes.Buffer
	b, err := open(t, client.Config{Address: f.address(0)}).Admin().Backup(t.Context(), &got)
	if err != nil || b.Bytes != int64(len(data)) || b.Cluster != servertest.Cluster {
		t.Errorf("%+v, %v", b, err)
	}
	if !bytes.Equal(got.Bytes(), data) {
		t.Errorf("%d bytes came, %d were sent", got.Len(), len(data))
	}
}

// breaks writes a part of a copy before it fails.
type breaks struct {
	*servertest.Fake
	ln    *listener
	tries int
	some  []byte
	lie   string
	err   error
}

func (b *breaks) Admin() admin.Calls { return b }

func (b *breaks) Backup(ctx context.Context, w io.Writer) (admin.Backup, error) {
	b.tries++
	if _, err := w.Write(b.some); err != nil {
		return admin.Backup{}, err
	}
	if b.lie != "" {
		return admin.Backup{Bytes: int64(len(b.some)), SHA256: b.lie}, nil
	}
	return admin.Backup{}, b.err
}

func TestBackupThatBreaksOff(t *testing.T) {
	for name, x := range map[string]struct {
		b    breaks
		says string
		code txn.Code
	}{
		"in the middle": {breaks{some: make([]byte, 3<<20), err: txn.ErrUnavailable}, "broke off after", txn.CodeUnavailable},
		"wrong sum":     {breaks{some: []byte("state"), lie: "00"}, "not whole", txn.CodeError},
		"refused":       {breaks{err: txn.ErrDenied}, "denied", txn.CodeDenied},
	} {
		t.Run(name, func(t *testing.T) {
			x.b.Fake, x.b.ln = servertest.New(), listen(t, "127.0.0.1:0")
			t.Cleanup(serveOn(t, x.b.ln, &x.b, server.Config{}))
			_, err := open(t, client.Config{Address: "http://" + x.b.ln.Addr().String()}).Admin().Backup(t.Context(), io.Discard)
			if txn.CodeOf(err) != x.code || !strings.Contains(err.Error(), x.says) || x.b.tries != 1 {
				t.Errorf("%v after %d tries", err, x.b.tries)
			}
		})
	}
	full := errors.New("disk full")
	f := newTestCluster(t, 1)
	if _, err := open(t, client.Config{Address: f.address(0)}).Admin().Backup(t.Context(), failing{full}); !errors.Is(err, full) {
		t.Errorf("%v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
