package client_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/server"
	"github.com/txmgr/txmgr/server/servertest"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// slowOpener opens a session and loses the first answer; the session expires before the
// client tries again.
type slowOpener struct {
	*servertest.Fake
	ln    *listener
	times atomic.Int64
}

func (o *slowOpener) OpenSession(ctx context.Context, so txn.SessionOptions) (admin.ClientSession, error) {
	s, err := o.Fake.OpenSession(ctx, so)
	if err == nil && o.times.Add(1) == 1 {
		o.Fake.ExpireSession(s.ID)
		o.ln.cut()
	}
	return s, err
}

// TestOpenOutlivesALostAnswer: a session that expired before its client knew it is replaced
// by a new one.
func TestOpenOutlivesALostAnswer(t *testing.T) {
	o := &slowOpener{Fake: servertest.New(), ln: listen(t, "127.0.0.1:0")}
	t.Cleanup(serveOn(t, o.ln, o, server.Config{}))
	c := open(t, client.Config{Address: "http://" + o.ln.Addr().String()})
	s := openSession(t, c, time.Second)
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	mine := txn.SessionOptions{ID: txn.NewSessionID(time.Now(), [9]byte{1})}
	o.times.Store(0)
	if _, err := c.CreateSession(t.Context(), mine); !errors.Is(err, txn.ErrSessionExpired) {
		t.Errorf("with an id of the caller's: %v", err)
	}
}
