package client_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/server/servertest"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// Ping reports at the start of a program why the coordinator cannot be reached.
func TestPing(t *testing.T) {
	fake := servertest.New()
	fake.SetLeader("", false) // having no leader does not mean a wrong address
	here, gone, also := serve(t, fake), "http://"+freePort(t), "http://"+freePort(t)
	if err := open(t, client.Config{Address: gone + "," + here}).Ping(t.Context()); err != nil {
		t.Errorf("the second address: %v", err)
	}
	ctx := soon(t, time.Minute)
	err := open(t, client.Config{Address: gone + "," + also}).Ping(ctx)
	if !errors.Is(err, txn.ErrUnavailable) || !strings.Contains(err.Error(), gone+": connection refused") || !strings.Contains(err.Error(), also+": connection refused") || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no server listens: %v", err)
	}
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	if err := open(t, client.Config{Address: web.URL}).Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "did not answer as a txmgr server") {
		t.Errorf("another server: %v", err)
	}
	c := open(t, client.Config{Address: here})
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := c.Ping(t.Context()); !errors.Is(err, txn.ErrUnavailable) || !strings.Contains(err.Error(), "closed") {
		t.Errorf("closed: %v", err)
	}
}

// With FailFast a call tries every address once, and does not wait for a server to start.
func TestFailFastWithSeveralAddresses(t *testing.T) {
	eachTransport(t, func(t *testing.T, cfg client.Config) {
		cfg.FailFast = true
		cfg.Address = "http://" + freePort(t) + ",http://" + freePort(t)
		_, err := open(t, cfg).Begin(soon(t, time.Minute), txn.Options{})
		if !errors.Is(err, txn.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("no server listens: %v", err)
		}
		cfg.Address += "," + serve(t, servertest.New())
		if _, err := open(t, cfg).Begin(t.Context(), txn.Options{}); err != nil {
			t.Errorf("the last address: %v", err)
		}
	})
}

// Status prefers a node that knows the leader to one that does not.
func TestStatusOfANodeThatKnowsNoLeader(t *testing.T) {
	starting, leads := servertest.New(), servertest.New()
	starting.SetLeader("", false)
	alone := serve(t, starting)
	s, err := open(t, client.Config{Address: alone + "," + serve(t, leads)}).Admin().Status(t.Context())
	if err != nil || !s.Leader {
		t.Errorf("the leader is %q, %v", s.LeaderID, err)
	}
	s, err = open(t, client.Config{Address: alone + ",http://" + freePort(t)}).Admin().Status(soon(t, time.Minute))
	if err != nil || s.Leader || s.Node == "" {
		t.Errorf("without another one: %+v, %v", s, err)
	}
}

// justStarted is a node that knows the leader's id, and has not applied the entries with the nodes.
type justStarted struct{ *servertest.Fake }

func (j justStarted) Admin() admin.Calls { return j }

func (j justStarted) Status(ctx context.Context) (admin.Status, error) {
	s, err := j.Fake.Status(ctx)
	s.Leader, s.LeaderID, s.Members = false, "n2", []admin.Member{{ID: "n1", Self: true}, {ID: "n2", Leader: true}}
	return s, err
}

// Status prefers a node that knows the other nodes to one that knows only their ids.
func TestStatusOfANodeThatHasJustStarted(t *testing.T) {
	starting := serve(t, justStarted{servertest.New()})
	s, err := open(t, client.Config{Address: starting + "," + serve(t, servertest.New())}).Admin().Status(t.Context())
	if err != nil || !s.Leader {
		t.Errorf("the nodes are %+v, %v", s.Members, err)
	}
	s, err = open(t, client.Config{Address: starting}).Admin().Status(t.Context())
	if err != nil || s.Leader || len(s.Members) != 2 {
		t.Errorf("without another one: %+v, %v", s, err)
	}
}
