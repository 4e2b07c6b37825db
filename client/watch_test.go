package client_test

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"testing"
	"time"

	"connectrpc.com/connect"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/api/txmgr/v1/txmgrv1connect"
	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/server/servertest"
	"github.com/txmgr/txmgr/txn/admin"
)

// A watch that ends at its caller's deadline ends as its context did, whichever side
// notices first: the server learns of the deadline in whole milliseconds.
func TestWatchEndsWithItsContext(t *testing.T) {
	c := open(t, client.Config{Address: serve(t, servertest.New())})
	for i := range 100 {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond+time.Duration(i)*99*time.Microsecond)
		for _, err := range c.Watch(ctx, admin.Filter{}) {
			if err != nil {
				t.Fatalf("watch %d: %v", i, err)
			}
		}
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Fatalf("watch %d ended before its context", i)
		}
		cancel()
	}
}

// The server's answer says that the caller's deadline has passed.
func TestWatchSaysThatTimeIsOver(t *testing.T) {
	address := serve(t, servertest.New())
	s := txmgrv1connect.NewTransactionServiceClient(newHTTPClient(t, 20*time.Millisecond), address)
	stream, err := s.Watch(t.Context(), &txmgrv1.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	for stream.Receive() {
		t.Errorf("%v", stream.Msg())
	}
	if connect.CodeOf(stream.Err()) != connect.CodeDeadlineExceeded {
		t.Errorf("%v", stream.Err())
	}
}

// newHTTPClient sends servers a shorter timeout than the caller has.
func newHTTPClient(t *testing.T, told time.Duration) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: hurried{transport, told}}
}

type hurried struct {
	http.RoundTripper
	told time.Duration
}

func (h hurried) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Connect-Timeout-Ms", strconv.FormatInt(h.told.Milliseconds(), 10))
	return h.RoundTripper.RoundTrip(r)
}
