package server_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"connectrpc.com/connect"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/api/txmgr/v1/txmgrv1connect"
	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/server"
	"github.com/txmgr/txmgr/server/servertest"
	"github.com/txmgr/txmgr/txn"
)

// end reads a Pipe to its end.
func end(t *testing.T, p pipeline) error {
	t.Helper()
	for {
		if _, err := p.Receive(); err != nil {
			return err
		}
	}
}

// A Pipe is forwarded completely, in each protocol that has it.
func TestForwardedPipe(t *testing.T) {
	leader := start(t, nil)
	there := follower(t, leader.base, nil)
	for i, o := range [][]connect.ClientOption{nil, {connect.WithGRPC()}, {connect.WithProtoJSON()}} {
		p := openPipe(t, there, o...)
		if got := p.ResponseHeader().Get("Txmgr-Leader"); got != leader.base {
			t.Errorf("the leader is %q", got)
		}
		id := txn.NewID(time.Unix(int64(i), 0), [9]byte{1})
		for n := range uint64(100) {
			send(t, p, &txmgrv1.Command{Seq: 2*n + 1, Id: id[:], Call: &txmgrv1.Command_Begin{Begin: &txmgrv1.BeginCall{}}})
			if got := receive(t, p, 1)[2*n+1]; got.GetBegin() == nil {
				t.Fatalf("%v", got)
			}
			send(t, p, &txmgrv1.Command{Seq: 2*n + 2, Id: id[:], Call: &txmgrv1.Command_Get{Get: &txmgrv1.GetCall{}}})
			if got := receive(t, p, 1)[2*n+2]; got.GetGet().GetState() != "active" {
				t.Fatalf("%v", got)
			}
		}
		if err := p.CloseRequest(); err != nil {
			t.Fatal(err)
		}
		if err := end(t, p); !errors.Is(err, io.EOF) {
			t.Errorf("ends with %v", err)
		}
	}
}

// When another node becomes the leader, a Pipe ends after the commands sent to the old one
// are answered, without an error that would state that nothing was done.
func TestPipeEndsWithTheLeader(t *testing.T) {
	for _, c := range []struct {
		name    string
		forward bool
	}{{"at the node that leads", false}, {"at another", true}} {
		t.Run(c.name, func(t *testing.T) {
			var entered chan txn.ID
			var release func()
			leader := start(t, func(_ *server.Config, f *servertest.Fake) { entered, release = hold(f, "get") })
			asked := leader
			if c.forward {
				asked = follower(t, leader.base, nil)
			}
			p := openPipe(t, asked)
			send(t, p, &txmgrv1.Command{Seq: 1, Id: parseID(t, id1), Call: &txmgrv1.Command_Begin{Begin: &txmgrv1.BeginCall{}}})
			receive(t, p, 1)
			send(t, p, &txmgrv1.Command{Seq: 2, Id: parseID(t, id1), Call: &txmgrv1.Command_Get{Get: &txmgrv1.GetCall{}}})
			<-entered
			leader.fake.SetLeader("http://127.0.0.1:1", false)
			if c.forward {
				asked.fake.SetLeader("http://127.0.0.1:1", false)
			}
			release()
			if got := receive(t, p, 1)[2]; got.GetGet() == nil {
				t.Errorf("%v", got)
			}
			if err := end(t, p); !errors.Is(err, io.EOF) {
				t.Errorf("ends with %v", err)
			}
		})
	}
}

// A former leader that hangs does not block a Pipe that another node forwards to it; the end
// of the Pipe does not state that nothing was done.
func TestPipeLeavesAHangingLeader(t *testing.T) {
	for _, o := range [][]connect.ClientOption{nil, {connect.WithGRPC()}} {
		var entered chan txn.ID
		var release func()
		leader := start(t, func(_ *server.Config, f *servertest.Fake) { entered, release = hold(f, "begin") })
		there := follower(t, leader.base, nil)
		p := openPipe(t, there, o...)
		send(t, p, &txmgrv1.Command{Seq: 1, Id: parseID(t, id1), Call: &txmgrv1.Command_Begin{Begin: &txmgrv1.BeginCall{}}})
		<-entered
		started := time.Now()
		there.fake.SetLeader("", false)
		err := end(t, p)
		if connect.CodeOf(err) != connect.CodeUnavailable || time.Since(started) > 5*time.Second {
			t.Errorf("ends with %v after %v", err, time.Since(started))
		}
		if e := (*txn.Error)(nil); errors.As(wire.FromConnect(err), &e) {
			t.Errorf("ends with a failure of the server's own: %v", e)
		}
		release()
	}
}

// generateEvents begins transactions at a fake until quiet is called: a watch may begin a
// little later than its headers say.
func generateEvents(f *servertest.Fake) (quiet func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			_, _ = f.Begin(ctx, txn.Options{ID: txn.NewID(time.Now(), [9]byte{7})})
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// Events are forwarded as they come, and so is the end of the watch when another node leads.
func TestForwardedWatch(t *testing.T) {
	leader := start(t, nil)
	there := follower(t, leader.base, nil)
	for _, c := range []struct {
		asked *running
		o     connect.ClientOption
	}{{there, connect.WithGRPC()}, {there, connect.WithGRPCWeb()}, {there, connect.WithProtoJSON()}, {leader, connect.WithProtoJSON()}} {
		w, err := txmgrv1connect.NewTransactionServiceClient(h2(t), c.asked.base, c.o).Watch(context.Background(), &txmgrv1.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		quiet := generateEvents(leader.fake)
		if !w.Receive() || w.Msg().GetState() != "active" {
			t.Errorf("%v, %v", w.Msg(), w.Err())
		}
		quiet()
		leader.fake.SetLeader("http://127.0.0.1:1", false)
		there.fake.SetLeader("http://127.0.0.1:1", false)
		for w.Receive() { // events of generateEvents
		}
		if !unavailable(w.Err()) {
			t.Errorf("ends with %v", w.Err())
		}
		_ = w.Close()
		leader.fake.SetLeader("", true)
		there.fake.SetLeader(leader.base, false)
	}
}

// A wait ends when another node leads, and the client is told to wait there.
func TestWaitEndsWithTheLeader(t *testing.T) {
	leader := start(t, nil)
	leader.curl("Begin", begin(id1))
	there := follower(t, leader.base, nil)
	for _, r := range []*running{leader, there} {
		done := make(chan answer)
		go func() { done <- r.curl("Wait", begin(id1)) }()
		eventually(t, "waiting", func() bool { return contains(r.get("/metrics").body, "txmgr_rpc_streams_running 1\n") })
		leader.fake.SetLeader("http://127.0.0.1:1", false)
		there.fake.SetLeader("http://127.0.0.1:1", false)
		if a := <-done; a.header.Get("Txmgr-Code") != "UNAVAILABLE" {
			t.Errorf("%d %s", a.status, a.body)
		}
		leader.fake.SetLeader("", true)
		there.fake.SetLeader(leader.base, false)
	}
}

// A node that stops ends forwarded calls in the same way as its own.
func TestDrainOfForwardedCalls(t *testing.T) {
	leader := start(t, nil)
	leader.curl("Begin", begin(id1))
	there := follower(t, leader.base, nil)
	p := openPipe(t, there)
	send(t, p, &txmgrv1.Command{Seq: 1, Id: parseID(t, id1), Call: &txmgrv1.Command_Get{Get: &txmgrv1.GetCall{}}})
	receive(t, p, 1)
	done := make(chan answer)
	go func() { done <- there.curl("Wait", begin(id1)) }()
	eventually(t, "waiting", func() bool { return contains(there.get("/metrics").body, "txmgr_rpc_streams_running 2\n") })
	there.http.CloseIdleConnections() // net/http waits 5s for one without a request
	started := time.Now()
	stopped := make(chan error)
	go func() { stopped <- there.stop() }()
	if err := end(t, p); !errors.Is(err, io.EOF) {
		t.Errorf("the pipe ends with %v", err)
	}
	if a := <-done; a.header.Get("Txmgr-Code") != "UNAVAILABLE" {
		t.Errorf("%d %s", a.status, a.body)
	}
	if err := <-stopped; err != nil || time.Since(started) > 5*time.Second {
		t.Errorf("%v after %v", err, time.Since(started))
	}
}

// A backup is forwarded with its end, or without if it has none.
func TestSnapshot(t *testing.T) {
	data := make([]byte, 700<<10)
	for i := range data {
		data[i] = byte(i * i >> 3)
	}
	holds := func(_ *server.Config, f *servertest.Fake) { f.SetBackup(data) }
	leader := start(t, holds)
	there := follower(t, leader.base, nil)
	// A node without a leader copies its own state to a client that allows stale reads.
	left := start(t, func(c *server.Config, f *servertest.Fake) {
		holds(c, f)
		f.SetLeader("", false)
	})
	for _, base := range []string{leader.base, there.base, left.base} {
		ctx, info := connect.NewClientContext(context.Background())
		if base == left.base {
			info.RequestHeader().Set("Txmgr-Stale", "true")
		}
		s, err := txmgrv1connect.NewClusterServiceClient(h2(t), base).Snapshot(ctx, &txmgrv1.SnapshotRequest{})
		if err != nil {
			t.Fatal(err)
		}
		var got []byte
		var last *txmgrv1.Backup
		for s.Receive() {
			if last != nil {
				t.Error("something comes after the last message")
			}
			got, last = append(got, s.Msg().GetData()...), s.Msg().GetBackup()
		}
		if s.Err() != nil || string(got) != string(data) || last.GetBytes() != int64(len(data)) || last.GetCluster() != servertest.Cluster {
			t.Errorf("%d bytes, %v, %v", len(got), last, s.Err())
		}
		_ = s.Close()
	}
}
