package server_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/txmgr/txmgr/server"
	"github.com/txmgr/txmgr/server/servertest"
	"github.com/txmgr/txmgr/txn"
)

// A call that failed because its client disconnected says nothing about the coordinator: it
// is no warning.
func TestCallsThatTheirCallersLeave(t *testing.T) {
	entered := make(chan struct{}, 1)
	r := start(t, func(_ *server.Config, f *servertest.Fake) {
		f.Before = func(ctx context.Context, op string, _ txn.ID) error {
			if op != "get" {
				return nil
			}
			entered <- struct{}{}
			<-ctx.Done()
			return &txn.Error{Op: op, Err: txn.ErrUnavailable, Detail: "context canceled before a quorum answered"}
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.base+"/txmgr.v1.TransactionService/Get", strings.NewReader(begin(id1)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	ended := make(chan error, 1)
	go func() { _, err := r.try(req); ended <- err }()
	<-entered
	cancel()
	if err := <-ended; err == nil {
		t.Error("the call that its caller left was answered")
	}
	eventually(t, "the line of the call", func() bool { return strings.Contains(r.log.String(), "before a quorum answered") })
	for line := range strings.Lines(r.log.String()) {
		if strings.Contains(line, "before a quorum answered") && !strings.Contains(line, "level=DEBUG") {
			t.Errorf("the caller left, and the log says %s", line)
		}
	}
}
