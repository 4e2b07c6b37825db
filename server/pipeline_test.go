package server_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/api/txmgr/v1/txmgrv1connect"
	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/server"
	"github.com/txmgr/txmgr/server/servertest"
	"github.com/txmgr/txmgr/txn"
)

// h2 is a client for HTTP/2 without TLS.
func h2(t *testing.T) *http.Client {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

type pipeline = *connect.BidiStreamForClientSimple[txmgrv1.Batch, txmgrv1.ReplyBatch]

// openPipe opens a pipe that is closed when the test ends.
func openPipe(t *testing.T, r *running, options ...connect.ClientOption) pipeline {
	t.Helper()
	p, err := txmgrv1connect.NewTransactionServiceClient(h2(t), r.base, options...).Pipeline(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = p.CloseRequest(), p.CloseResponse() })
	return p
}

func parseID(t testing.TB, s string) []byte {
	t.Helper()
	id, err := txn.ParseID(s)
	if err != nil {
		t.Fatal(err)
	}
	return id[:]
}

func send(t *testing.T, p pipeline, commands ...*txmgrv1.Command) {
	t.Helper()
	if err := p.Send(&txmgrv1.Batch{Commands: commands}); err != nil {
		t.Fatal(err)
	}
}

// receive collects n replies by their seq.
func receive(t *testing.T, p pipeline, n int) map[uint64]*txmgrv1.Reply {
	t.Helper()
	replies := make(map[uint64]*txmgrv1.Reply)
	for len(replies) < n {
		batch, err := p.Receive()
		if err != nil {
			t.Fatalf("after %d replies: %v", len(replies), err)
		}
		for _, r := range batch.GetReplies() {
			if replies[r.GetSeq()] != nil {
				t.Errorf("two replies to %d", r.GetSeq())
			}
			replies[r.GetSeq()] = r
		}
	}
	return replies
}

func beginOf(seq uint64, id []byte) *txmgrv1.Command {
	return &txmgrv1.Command{Seq: seq, Id: id, Call: &txmgrv1.Command_Begin{Begin: &txmgrv1.BeginCall{Timeout: int64(time.Second)}}}
}

func getOf(seq uint64, id []byte) *txmgrv1.Command {
	return &txmgrv1.Command{Seq: seq, Id: id, Call: &txmgrv1.Command_Get{Get: &txmgrv1.GetCall{}}}
}

// Every command of a Pipe, in each protocol that has streams.
func TestPipeCarriesEveryCommand(t *testing.T) {
	for name, options := range map[string][]connect.ClientOption{
		"connect":      nil,
		"grpc":         {connect.WithGRPC()},
		"connect json": {connect.WithCodec(wire.JSON{})},
	} {
		t.Run(name, func(t *testing.T) {
			p := openPipe(t, start(t, nil), options...)
			id := parseID(t, id1)
			for _, step := range []struct {
				command *txmgrv1.Command
				want    *txmgrv1.Reply
			}{
				{
					&txmgrv1.Command{Call: &txmgrv1.Command_Begin{Begin: &txmgrv1.BeginCall{Timeout: 1e9, Branches: []*txmgrv1.EnlistCall{{Participant: "bank"}}}}},
					&txmgrv1.Reply{Result: &txmgrv1.Reply_Begin{Begin: &txmgrv1.BeginReply{
						Id: id, Timeout: 1e9, SurvivalIndex: 11, ExpiryTick: 11, MarkTick: 42, Appoints: true,
						Branches: []*txmgrv1.EnlistReply{{Id: 1, Participant: "bank", Xid: "txm_fake_01k9x3v7h2m8qf4r6t0bz5n1de_b1"}},
					}}},
				},
				{
					&txmgrv1.Command{Call: &txmgrv1.Command_Enlist{Enlist: &txmgrv1.EnlistCall{Participant: "stock"}}},
					&txmgrv1.Reply{Result: &txmgrv1.Reply_Enlist{Enlist: &txmgrv1.EnlistReply{Id: 2, Participant: "stock", Xid: "txm_fake_01k9x3v7h2m8qf4r6t0bz5n1de_b2"}}},
				},
				{
					&txmgrv1.Command{Call: &txmgrv1.Command_Extend{Extend: &txmgrv1.ExtendCall{Timeout: 2e9}}},
					&txmgrv1.Reply{Result: &txmgrv1.Reply_Outcome{Outcome: &txmgrv1.OutcomeReply{State: 1}}},
				},
				{
					&txmgrv1.Command{Call: &txmgrv1.Command_Vote{Vote: &txmgrv1.VoteCall{Votes: []*txmgrv1.BranchVote{{Branch: 2, Vote: 2}}, ClientCompletes: true}}},
					&txmgrv1.Reply{Result: &txmgrv1.Reply_Outcome{Outcome: &txmgrv1.OutcomeReply{State: 1}}},
				},
				{
					&txmgrv1.Command{Call: &txmgrv1.Command_Delegate{Delegate: &txmgrv1.DelegateCall{Branch: 1}}},
					&txmgrv1.Reply{Result: &txmgrv1.Reply_Failure{Failure: &txmgrv1.Failure{
						Code: "CONFLICT", Message: "delegate " + id1 + ": conflict: there are other branches, or votes", Op: "delegate", Id: id1, State: "active",
						Hint: "Get returns the state of the transaction", Detail: "there are other branches, or votes", Kinds: []string{"conflict"},
					}}},
				},
				{
					&txmgrv1.Command{Call: &txmgrv1.Command_Commit{Commit: &txmgrv1.CommitCall{Votes: []*txmgrv1.BranchVote{{Branch: 1, Vote: 1}, {Branch: 2, Vote: 2}}}}},
					&txmgrv1.Reply{Result: &txmgrv1.Reply_Outcome{Outcome: &txmgrv1.OutcomeReply{State: 3}}},
				},
				{
					&txmgrv1.Command{Call: &txmgrv1.Command_Rollback{Rollback: &txmgrv1.RollbackCall{}}},
					&txmgrv1.Reply{Result: &txmgrv1.Reply_Failure{Failure: &txmgrv1.Failure{
						Code: "CONFLICT", Message: "rollback " + id1 + ": conflict: decided to commit", Op: "rollback", Id: id1, State: "committing",
						Hint: "Get returns the state of the transaction", Detail: "decided to commit", Kinds: []string{"conflict"},
					}}},
				},
				{
					&txmgrv1.Command{Call: &txmgrv1.Command_ReportCompletion{ReportCompletion: &txmgrv1.ReportCompletionCall{Reports: []*txmgrv1.BranchCompletion{{Branch: 1, State: 3}, {Branch: 2, State: 3}}}}},
					&txmgrv1.Reply{Result: &txmgrv1.Reply_ReportCompletion{ReportCompletion: &txmgrv1.ReportCompletionReply{}}},
				},
			} {
				step.command.Id, step.command.Seq, step.want.Seq = id, 7, 7
				send(t, p, step.command)
				if diff := cmp.Diff(step.want, receive(t, p, 1)[7], protocmp.Transform()); diff != "" {
					t.Errorf("%T: %s", step.command.GetCall(), diff)
				}
			}
			send(t, p, getOf(8, id))
			if got := receive(t, p, 1)[8].GetGet(); got.GetState() != "committed" || got.GetId() != id1 || len(got.GetBranches()) != 2 {
				t.Errorf("get: %v", got)
			}
		})
	}
}

// A bad command fails alone.
func TestPipeRefusals(t *testing.T) {
	r := start(t, func(_ *server.Config, f *servertest.Fake) {
		f.Before = func(_ context.Context, op string, _ txn.ID) error {
			if op == "extend" {
				panic("in a command")
			}
			return nil
		}
	})
	p := openPipe(t, r)
	id := parseID(t, id1)
	send(t, p,
		beginOf(1, id),
		getOf(2, []byte("short")),
		&txmgrv1.Command{Seq: 3, Id: id},
		&txmgrv1.Command{Seq: 4, Id: id, Call: &txmgrv1.Command_Commit{Commit: &txmgrv1.CommitCall{Votes: []*txmgrv1.BranchVote{{Branch: 1, Vote: 77}}}}},
		&txmgrv1.Command{Seq: 5, Id: id, Call: &txmgrv1.Command_Extend{Extend: &txmgrv1.ExtendCall{}}},
		&txmgrv1.Command{Seq: 6, Id: id, Call: &txmgrv1.Command_ReportCompletion{ReportCompletion: &txmgrv1.ReportCompletionCall{Reports: []*txmgrv1.BranchCompletion{{Branch: 1, State: 99}}}}},
		&txmgrv1.Command{Seq: 7, Id: id, Call: &txmgrv1.Command_Vote{Vote: &txmgrv1.VoteCall{Votes: []*txmgrv1.BranchVote{{Branch: 1, Vote: 4}}}}},
		&txmgrv1.Command{Seq: 8, Id: id, Call: &txmgrv1.Command_Delegate{Delegate: &txmgrv1.DelegateCall{}}},
	)
	replies := receive(t, p, 8)
	for seq, want := range map[uint64]string{1: "", 2: "USAGE", 3: "USAGE", 4: "USAGE", 5: "ERROR", 6: "USAGE", 7: "USAGE", 8: "NOT_FOUND"} {
		if got := replies[seq].GetFailure().GetCode(); got != want {
			t.Errorf("%d: %v", seq, replies[seq])
		}
	}
	if m := replies[5].GetFailure().GetMessage(); strings.Contains(m, "in a command") {
		t.Errorf("the panic shows: %q", m)
	}
	if !strings.Contains(r.log.String(), "in a command") {
		t.Error("the panic is not logged")
	}
	if a := r.get("/metrics"); !strings.Contains(a.body, `txmgr_rpc_duration_seconds_count{code="OK",method="Begin"} 1`) ||
		!strings.Contains(a.body, `txmgr_rpc_duration_seconds_count{code="ERROR",method="Extend"} 1`) {
		t.Error("commands are not in the metrics")
	}
}

// Commands of one batch do not wait for each other, and a reply does not wait
// for the others of its batch.
func TestPipeIsConcurrent(t *testing.T) {
	var entered chan txn.ID
	var release func()
	r := start(t, func(_ *server.Config, f *servertest.Fake) { entered, release = hold(f, "get") })
	p := openPipe(t, r)
	id := parseID(t, id1)
	var batch []*txmgrv1.Command
	for seq := range uint64(100) {
		batch = append(batch, getOf(seq, id))
	}
	send(t, p, append(batch, beginOf(100, id))...)
	for range 100 {
		<-entered
	}
	if got := receive(t, p, 1)[100].GetBegin(); got == nil {
		t.Error("the begin waits for the gets")
	}
	release()
	if got := receive(t, p, 100); got[0].GetGet().GetId() != id1 {
		t.Errorf("%v", got[0])
	}
}

// Invariant 2: a Pipe is not read beyond its limit, and continues afterwards.
func TestPipeIsLimited(t *testing.T) {
	var entered chan txn.ID
	var release func()
	r := start(t, func(c *server.Config, f *servertest.Fake) {
		c.MaxPipelineCommands = 10
		entered, release = hold(f, "get")
	})
	p := openPipe(t, r)
	id := parseID(t, id1)
	send(t, p, beginOf(0, id))
	receive(t, p, 1)
	for n := range uint64(5) {
		var batch []*txmgrv1.Command
		for k := range uint64(7) {
			batch = append(batch, getOf(1+n*7+k, id))
		}
		send(t, p, batch...)
	}
	for range 10 {
		<-entered
	}
	if a := r.get("/metrics"); !strings.Contains(a.body, "txmgr_rpc_commands_running 10\n") {
		t.Error("not 10 commands are running")
	}
	select {
	case <-entered:
		t.Error("an eleventh command is running")
	default:
	}
	release()
	receive(t, p, 35)
}

// Invariant 1 for commands: a command above the limit of all Pipes is refused before it
// reaches the coordinator.
func TestCommandsAreShed(t *testing.T) {
	var entered chan txn.ID
	var release func()
	r := start(t, func(c *server.Config, f *servertest.Fake) {
		c.MaxCommands = 1
		entered, release = hold(f, "get")
	})
	p := openPipe(t, r)
	id := parseID(t, id1)
	send(t, p, beginOf(0, id))
	receive(t, p, 1)
	send(t, p, getOf(1, id))
	<-entered
	send(t, p, getOf(2, id))
	f := receive(t, p, 1)[2].GetFailure()
	if f.GetCode() != "UNAVAILABLE" || f.GetRetryAfter() != "1s" || !strings.Contains(f.GetMessage(), "1 commands are running") {
		t.Errorf("%v", f)
	}
	release()
	receive(t, p, 1)
	if len(entered) != 0 {
		t.Error("the command that was shed reached the coordinator")
	}
}

// Commands share a deadline, and have one.
func TestCommandsHaveADeadline(t *testing.T) {
	r := start(t, func(c *server.Config, f *servertest.Fake) {
		c.CallTimeout = time.Millisecond
		hold(f, "get") // never released: only the deadline ends it
	})
	p := openPipe(t, r)
	started := time.Now()
	send(t, p, getOf(1, parseID(t, id1)))
	f := receive(t, p, 1)[1].GetFailure()
	if f.GetCode() != "UNAVAILABLE" || time.Since(started) > 5*time.Second {
		t.Errorf("%v after %v", f, time.Since(started))
	}
}

// A message that cannot be decoded ends the Pipe with a reason, after the outstanding
// replies.
func TestPipeWithGarbage(t *testing.T) {
	r := start(t, nil)
	good, err := proto.Marshal(&txmgrv1.Batch{Commands: []*txmgrv1.Command{beginOf(1, parseID(t, id1))}})
	if err != nil {
		t.Fatal(err)
	}
	for name, garbage := range map[string][]byte{"not protobuf": {0x0a, 0xff}, "too long": make([]byte, 2<<20)} {
		t.Run(name, func(t *testing.T) {
			body := append(frame(good), frame(garbage)...)
			req, err := http.NewRequest(http.MethodPost, r.base+txmgrv1connect.TransactionServicePipelineProcedure, bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/connect+proto")
			res, err := h2(t).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			said, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(said, parseID(t, id1)) || !strings.Contains(string(said), `"code":"invalid_argument"`) || !strings.Contains(string(said), "txmgr.v1.Failure") {
				t.Errorf("said %q", said)
			}
		})
	}
}

func frame(message []byte) []byte {
	head := make([]byte, 5)
	binary.BigEndian.PutUint32(head[1:], uint32(len(message)))
	return append(head, message...)
}

// A client that disconnects ends its commands; the server is not affected.
func TestPipeThatIsLeft(t *testing.T) {
	entered, ended := make(chan struct{}), make(chan error, 1)
	r := start(t, func(_ *server.Config, f *servertest.Fake) {
		f.Before = func(ctx context.Context, op string, _ txn.ID) error {
			if op == "get" {
				close(entered)
				<-ctx.Done()
				ended <- ctx.Err()
			}
			return ctx.Err()
		}
	})
	p := openPipe(t, r)
	send(t, p, getOf(1, parseID(t, id1)))
	<-entered
	_, _ = p.CloseRequest(), p.CloseResponse()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	eventually(t, "the stream to end", func() bool { return strings.Contains(r.get("/metrics").body, "txmgr_rpc_streams_running 0\n") })
}

// At a stop the commands that were read finish and are answered, and the Pipe ends without an
// error.
func TestPipeAtShutdown(t *testing.T) {
	var entered chan txn.ID
	var release func()
	r := start(t, func(_ *server.Config, f *servertest.Fake) { entered, release = hold(f, "get") })
	p := openPipe(t, r)
	id := parseID(t, id1)
	send(t, p, beginOf(1, id), getOf(2, id))
	receive(t, p, 1)
	<-entered
	stopped := make(chan error, 1)
	go func() { stopped <- r.stop() }()
	eventually(t, "the listener to close", func() bool {
		_, err := r.try(must(http.NewRequest(http.MethodGet, r.base+"/livez", nil)))
		return err != nil
	})
	release()
	if got := receive(t, p, 1)[2].GetGet().GetId(); got != id1 {
		t.Errorf("the command in flight: %q", got)
	}
	if _, err := p.Receive(); !errors.Is(err, io.EOF) {
		t.Errorf("end of stream: %v", err)
	}
	if err := <-stopped; err != nil {
		t.Errorf("stop: %v", err)
	}
}

// Pipe needs HTTP/2; over HTTP/1.1 the status says so.
func TestPipeOverHTTP1(t *testing.T) {
	r := start(t, nil)
	if a := r.post("Pipeline", "application/connect+proto", strings.NewReader("")); a.status != http.StatusHTTPVersionNotSupported || a.header.Get("Txmgr-Code") != "USAGE" {
		t.Errorf("%d %v", a.status, a.header)
	}
}

func TestWatch(t *testing.T) {
	r := start(t, func(c *server.Config, _ *servertest.Fake) { c.ReadTimeout = 50 * time.Millisecond })
	c := txmgrv1connect.NewTransactionServiceClient(r.http, r.base)
	r.http.Timeout = 0
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w, err := c.Watch(ctx, &txmgrv1.Filter{States: []string{"committed"}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	eventually(t, "the watch to begin", func() bool { return strings.Contains(r.get("/metrics").body, "txmgr_rpc_streams_running 1\n") })
	// Longer than the deadlines for reading: a quiet watch stays open.
	r.curl("Begin", begin("tx_01k9x3v7h2m8qf4r6t0bz5n1df"))
	r.curl("Wait", `{"id":"tx_01k9x3v7h2m8qf4r6t0bz5n1df","timeout":"200ms"}`)
	r.curl("Begin", begin(id1))
	r.curl("Commit", begin(id1))
	if !w.Receive() {
		t.Fatal(w.Err())
	}
	if e := w.Msg(); e.GetId() != id1 || e.GetState() != "committed" || e.GetTime() == "" {
		t.Errorf("%v", e)
	}
}

// Waits and watches end with an error when the server stops.
func TestWaitersAtShutdown(t *testing.T) {
	r := start(t, nil)
	r.curl("Begin", begin(id1))
	c := txmgrv1connect.NewTransactionServiceClient(h2(t), r.base)
	w, err := c.Watch(context.Background(), &txmgrv1.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	waited := make(chan error, 1)
	go func() {
		_, err := c.Wait(context.Background(), &txmgrv1.WaitRequest{Id: id1})
		waited <- err
	}()
	eventually(t, "both to run", func() bool { return strings.Contains(r.get("/metrics").body, "txmgr_rpc_streams_running 2\n") })
	if err := r.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if err := wire.FromConnect(<-waited); !errors.Is(err, txn.ErrUnavailable) || !strings.Contains(err.Error(), "shutting down") {
		t.Errorf("wait: %v", err)
	}
	if w.Receive() || !errors.Is(wire.FromConnect(w.Err()), txn.ErrUnavailable) {
		t.Errorf("watch: %v", w.Err())
	}
}

// A call has been answered, and its client has not sent the rest of the body. The stop closes
// the connection, and does not fail: no call was cut off.
func TestHalfABodyIsNoCallThatWasCutOff(t *testing.T) {
	r := start(t, func(c *server.Config, _ *servertest.Fake) { c.DrainTimeout, c.MaxBody = 50*time.Millisecond, 64 })
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(r.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	head := "POST /txmgr.v1.TransactionService/Begin HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
	if _, err := io.WriteString(conn, head); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the refusal", func() bool { return strings.Contains(r.log.String(), "the body has 100 bytes") })
	if err := r.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if !strings.Contains(r.log.String(), "no call was running") {
		t.Error("the connection that was closed is not logged")
	}
}

// A call that does not end in time is cut off, and the stop says so.
func TestDrainIsLimited(t *testing.T) {
	var entered chan txn.ID
	var release func()
	r := start(t, func(c *server.Config, f *servertest.Fake) {
		c.DrainTimeout = 50 * time.Millisecond
		entered, release = hold(f, "get")
	})
	cut := make(chan error, 1)
	go func() {
		_, err := r.try(must(http.NewRequest(http.MethodGet, r.base+`/txmgr.v1.TransactionService/Get?encoding=json&message={"id":"`+id1+`"}`, nil)))
		cut <- err
	}()
	<-entered
	if err := r.stop(); err == nil || !strings.Contains(err.Error(), "1 calls did not end in time") {
		t.Errorf("stop: %v", err)
	}
	if err := <-cut; err == nil {
		t.Error("the call was answered")
	}
	release()
	r.stop = func() error { return nil }
}
