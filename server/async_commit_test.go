package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/api/txmgr/v1/txmgrv1connect"
	"github.com/txmgr/txmgr/node"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/server"
	"github.com/txmgr/txmgr/txn"
)

// gatedVoter is a participant that votes yes when its channel is closed.
type gatedVoter chan struct{}

func (t gatedVoter) Prepare(ctx context.Context, _ participant.Branch) (txn.Vote, string, error) {
	select {
	case <-t:
		return txn.VoteReadOnly, "", nil
	case <-ctx.Done():
		return 0, "", ctx.Err()
	}
}

func (gatedVoter) Commit(context.Context, participant.Branch) (participant.Result, error) {
	return participant.Result{Outcome: participant.Committed}, nil
}

func (gatedVoter) Rollback(context.Context, participant.Branch) (participant.Result, error) {
	return participant.Result{Outcome: participant.RolledBack}, nil
}

func (gatedVoter) Prepared(context.Context, string) ([]participant.Prepared, error) { return nil, nil }
func (gatedVoter) Check(context.Context) error                                      { return nil }
func (gatedVoter) Close() error                                                     { return nil }

// A commit of a Pipe that waits for votes occupies no goroutine, and ends like any other:
// with the vote, at the deadline of its call, with its client.
func TestCommitsOfAPipeThatWait(t *testing.T) {
	const many = 200
	for name, timeout := range map[string]time.Duration{"the vote": time.Minute, "the deadline": 3 * time.Second, "the caller": time.Minute} {
		t.Run(name, func(t *testing.T) {
			shop := make(gatedVoter)
			n := openNode(t, func(c *node.Config) { c.Participants = map[string]participant.Participant{"shop": shop} })
			r := serving(t, n, server.Config{CallTimeout: timeout})
			running := func(n int) func() bool {
				return func() bool {
					return strings.Contains(r.get("/metrics").body, fmt.Sprintf("txmgr_rpc_commands_running %d\n", n))
				}
			}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			p, err := txmgrv1connect.NewTransactionServiceClient(h2(t), r.base).Pipeline(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _, _ = p.CloseRequest(), p.CloseResponse() }()
			id := parseID(t, id1)
			send(t, p, &txmgrv1.Command{Id: id, Call: &txmgrv1.Command_Begin{
				Begin: &txmgrv1.BeginCall{Timeout: int64(time.Hour), Branches: []*txmgrv1.EnlistCall{{Participant: "shop"}}},
			}})
			receive(t, p, 1)
			for i := range many {
				send(t, p, &txmgrv1.Command{Seq: uint64(i), Id: id, Call: &txmgrv1.Command_Commit{Commit: &txmgrv1.CommitCall{}}})
			}
			eventually(t, "the commits that wait", running(many))
			eventually(t, "the goroutines to leave them", func() bool {
				stacks := make([]byte, 8<<20)
				return !strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "node.(*Node).Commit")
			})
			if !running(many)() {
				t.Error("some do not wait any more")
			}
			switch name {
			case "the vote":
				close(shop)
				for seq, reply := range receive(t, p, many) {
					if s := txn.State(reply.GetOutcome().GetState()); !s.Commits() {
						t.Errorf("%d: %v", seq, reply)
					}
				}
			case "the deadline":
				for seq, reply := range receive(t, p, many) {
					if f := reply.GetFailure(); f.GetCode() != "IN_DOUBT" || !strings.Contains(f.GetMessage(), "deadline exceeded while the coordinator collects the votes") {
						t.Errorf("%d: %v", seq, reply)
					}
				}
			case "the caller":
				cancel()
				_ = p.CloseRequest() // the transport notices one through the other
			}
			eventually(t, "the end of all commits", running(0))
		})
	}
}

// TestUnreadPipeHoldsUpNoOther: a client that sends commands and reads no reply occupies its own
// stream only, although the replies to all streams come from one goroutine of the node. It gets
// every reply when it reads.
func TestUnreadPipeHoldsUpNoOther(t *testing.T) {
	n := openNode(t)
	r := serving(t, n, server.Config{})
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	small := &http.Transport{Protocols: protocols, HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 16 << 10, MaxReceiveBufferPerConnection: 64 << 10}}
	defer small.CloseIdleConnections()
	unread, err := txmgrv1connect.NewTransactionServiceClient(&http.Client{Transport: small}, r.base).Pipeline(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = unread.CloseRequest(), unread.CloseResponse() }()
	const many = 4000 // replies of 40 bytes at least, and fewer than may be in flight
	ids := func(first byte, i int) []byte {
		id := txn.NewID(time.Now(), [9]byte{first, byte(i >> 8), byte(i)})
		return id[:]
	}
	for i := range many {
		send(t, unread, beginOf(uint64(i), ids(1, i)))
	}
	read := openPipe(t, r)
	for i := range 100 {
		id := ids(2, i)
		send(t, read, beginOf(uint64(i), id))
		receive(t, read, 1)
		send(t, read, &txmgrv1.Command{Seq: uint64(i), Id: id, Call: &txmgrv1.Command_Commit{Commit: &txmgrv1.CommitCall{}}})
		if f := receive(t, read, 1)[uint64(i)].GetFailure(); f != nil {
			t.Fatalf("commit %d beside a client that reads nothing: %v", i, f)
		}
	}
	for seq, reply := range receive(t, unread, many) {
		if f := reply.GetFailure(); f != nil {
			t.Errorf("%d: %v", seq, f)
		}
	}
}

// openNode opens a single node, which leads.
func openNode(t *testing.T, change ...func(*node.Config)) *node.Node {
	t.Helper()
	c := node.Config{DataDir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&c)
	}
	n, err := node.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	eventually(t, "a leader", func() bool { _, here := n.Leader(); return here })
	return n
}
