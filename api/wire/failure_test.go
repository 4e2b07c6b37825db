package wire_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/txn"
)

var sentinels = []error{
	txn.ErrInvalid, txn.ErrNotFound, txn.ErrConflict, txn.ErrDenied, txn.ErrManaged, txn.ErrNotActive, txn.ErrRolledBack,
	txn.ErrTimedOut, txn.ErrVotedNo, txn.ErrSessionExpired, txn.ErrInDoubt, txn.ErrHeuristic, txn.ErrUnavailable, txn.ErrWaitTimeout,
	txn.ErrEndedByApplication, txn.ErrForgotten,
}

// Invariant 4: an error comes back as the same sentinels, no more and no fewer, over either
// transport.
func TestErrorsComeBack(t *testing.T) {
	id := txn.ID{1, 2, 3}
	cases := []error{
		&txn.Error{Op: "commit", ID: id, State: txn.RolledBack, Cause: txn.CauseTimeout, Err: txn.ErrRolledBack},
		&txn.Error{Op: "commit", ID: id, State: txn.RolledBack, Cause: txn.CauseVoteNo, Detail: "ledger: out of range", Err: txn.ErrRolledBack},
		&txn.Error{Op: "commit", ID: id, Err: fmt.Errorf("%w: %w", txn.ErrInDoubt, txn.ErrHeuristic)},
		&txn.Error{Op: "commit", ID: id, State: txn.RolledBack, Cause: txn.CauseVoteNo, Heuristic: txn.HeuristicCommit, Err: txn.ErrEndedByApplication},
		fmt.Errorf("wrapped: %w", &txn.Error{Op: "enlist", ID: id, State: txn.Committed, Err: txn.ErrNotActive}),
	}
	for _, s := range sentinels {
		cases = append(cases, &txn.Error{Op: "commit", ID: id, State: txn.Active, Err: s}, fmt.Errorf("%w: because", s))
		for _, cause := range []txn.Cause{txn.CauseTimeout, txn.CauseVoteNo, txn.CauseClient, txn.CauseSessionExpired} {
			for _, hazard := range []txn.Heuristic{0, txn.HeuristicCommit} {
				cases = append(cases, &txn.Error{Op: "commit", ID: id, State: txn.RolledBack, Cause: cause, Heuristic: hazard, Err: s})
			}
		}
	}
	for _, want := range cases {
		f := wire.FromError(want, "commit", id)
		for way, got := range map[string]error{
			"pipe":    wire.ToError(f),
			"connect": wire.FromConnect(wire.ToConnect(f)),
		} {
			for _, s := range sentinels {
				if errors.Is(want, s) != errors.Is(got, s) {
					t.Errorf("%s: %v became %v: is %v: %t", way, want, got, s, errors.Is(got, s))
				}
			}
			for _, permits := range []error{txn.ErrRolledBack, txn.ErrTimedOut, txn.ErrVotedNo, txn.ErrSessionExpired} {
				if errors.Is(got, permits) && txn.CodeOf(got) == txn.CodeInDoubt {
					t.Errorf("%s: %v is in doubt and %v", way, got, permits)
				}
			}
			if txn.CodeOf(got) != txn.CodeOf(want) {
				t.Errorf("%s: %v: code %s", way, want, txn.CodeOf(got))
			}
			e := (*txn.Error)(nil)
			if !errors.As(got, &e) || e.ID != id || e.Op == "" {
				t.Errorf("%s: %v became %#v", way, want, got)
			}
			if w := (*txn.Error)(nil); errors.As(want, &w) && (e.State != w.State || e.Cause != w.Cause || e.Op != w.Op || !strings.Contains(e.Detail, w.Detail)) {
				t.Errorf("%s: %#v became %#v", way, w, e)
			}
		}
	}
}

func TestTextOfAnErrorIsKeptOnce(t *testing.T) {
	in := &txn.Error{Op: "commit", ID: txn.ID{1}, State: txn.RolledBack, Cause: txn.CauseVoteNo, Detail: "no funds", Err: txn.ErrRolledBack}
	if out := wire.ToError(wire.FromError(in, "", txn.ID{})); out.Error() != in.Error() {
		t.Errorf("%q became %q", in, out)
	}
	shed := &txn.Error{Op: "pipe", Err: &wire.RetryAfterError{After: time.Second, Err: fmt.Errorf("%w: too many", txn.ErrUnavailable)}}
	if out := wire.ToError(wire.FromError(shed, "", txn.ID{})); out.Error() != "pipe: unavailable: too many" {
		t.Errorf("%q became %q", shed, out)
	}
	out := wire.ToError(wire.FromError(errors.New("disk on fire"), "get", txn.ID{1}))
	if strings.Count(out.Error(), "disk on fire") != 1 || txn.CodeOf(out) != txn.CodeError {
		t.Errorf("became %q", out)
	}
}

func TestContextErrorsMeanSomething(t *testing.T) {
	for _, c := range []struct {
		op   string
		err  error
		want error
	}{
		{"commit", context.DeadlineExceeded, txn.ErrInDoubt},
		{"vote", context.DeadlineExceeded, txn.ErrInDoubt},
		{"delegate", context.Canceled, txn.ErrInDoubt},
		{"indoubt resolve", context.DeadlineExceeded, txn.ErrUnavailable},
		{"begin", context.DeadlineExceeded, txn.ErrUnavailable},
		{"rollback", context.Canceled, txn.ErrUnavailable},
		{"wait", context.DeadlineExceeded, txn.ErrWaitTimeout},
		{"commit", fmt.Errorf("%w: %w", txn.ErrUnavailable, context.DeadlineExceeded), txn.ErrUnavailable},
	} {
		if got := txn.Code(wire.FromError(c.err, c.op, txn.ID{}).GetCode()); got != txn.CodeOf(c.want) {
			t.Errorf("%s %v: %s", c.op, c.err, got)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	in := &txn.Error{Op: "begin", Err: &wire.RetryAfterError{After: 1500 * time.Millisecond, Err: txn.ErrUnavailable}}
	f := wire.FromError(in, "begin", txn.ID{})
	ce := wire.ToConnect(f)
	if got := ce.Meta().Get("Retry-After"); got != "2" {
		t.Errorf("header is %q: want whole seconds, not too early", got)
	}
	for _, out := range []error{wire.ToError(f), wire.FromConnect(ce)} {
		r := (*wire.RetryAfterError)(nil)
		if !errors.As(out, &r) || r.After != 1500*time.Millisecond || !errors.Is(out, txn.ErrUnavailable) {
			t.Errorf("came back as %v", out)
		}
	}
	bare := connect.NewError(connect.CodeResourceExhausted, errors.New("slow down"))
	bare.Meta().Set("Retry-After", "3")
	if r := (*wire.RetryAfterError)(nil); !errors.As(wire.FromConnect(bare), &r) || r.After != 3*time.Second || !errors.Is(r, txn.ErrUnavailable) {
		t.Error("the header of a proxy is not understood")
	}
}

func TestCodesForPeople(t *testing.T) {
	for err, want := range map[error]connect.Code{
		txn.ErrInvalid: connect.CodeInvalidArgument, txn.ErrNotFound: connect.CodeNotFound, txn.ErrConflict: connect.CodeFailedPrecondition,
		txn.ErrRolledBack: connect.CodeAborted, txn.ErrInDoubt: connect.CodeUnknown, txn.ErrHeuristic: connect.CodeUnknown, txn.ErrEndedByApplication: connect.CodeUnknown,
		txn.ErrUnavailable: connect.CodeUnavailable, txn.ErrDenied: connect.CodePermissionDenied, txn.ErrWaitTimeout: connect.CodeDeadlineExceeded,
		errors.New("other"): connect.CodeInternal,
	} {
		e := wire.ToConnect(wire.FromError(&txn.Error{Op: "commit", State: txn.Active, Err: err}, "", txn.ID{}))
		if e.Code() != want || e.Meta().Get(wire.HeaderCode) != string(txn.CodeOf(err)) || e.Meta().Get(wire.HeaderState) != "active" || len(e.Details()) != 1 {
			t.Errorf("%v: %v, %v, %d details", err, e.Code(), e.Meta(), len(e.Details()))
		}
	}
}

// The next step depends on the heuristic outcome, not on the code alone.
func TestHintAfterAHeuristicOutcome(t *testing.T) {
	id := txn.ID{1, 2, 3}
	for want, err := range map[string]error{
		"ask Wait or Get":                              &txn.Error{Op: "commit", ID: id, Err: txn.ErrInDoubt},
		"an operator has to look":                      &txn.Error{Op: "commit", ID: id, Err: fmt.Errorf("%w: %w", txn.ErrInDoubt, txn.ErrHeuristic)},
		"look at the data before anything is repeated": txn.ErrEndedByApplication,
	} {
		if f := wire.FromError(err, "commit", txn.ID{}); !strings.HasPrefix(f.GetHint(), want) {
			t.Errorf("%v: %q, want %q", err, f.GetHint(), want)
		}
	}
}

// The response of a proxy or of another server is an error with a sensible sentinel.
func TestErrorsOfStrangers(t *testing.T) {
	for code, want := range map[connect.Code]error{
		connect.CodeUnavailable: txn.ErrUnavailable, connect.CodeInvalidArgument: txn.ErrInvalid, connect.CodeResourceExhausted: txn.ErrInvalid,
		connect.CodePermissionDenied: txn.ErrDenied, connect.CodeUnauthenticated: txn.ErrDenied,
	} {
		if got := wire.FromConnect(connect.NewError(code, errors.New("x"))); !errors.Is(got, want) {
			t.Errorf("%v: %v", code, got)
		}
	}
	if err := wire.FromConnect(connect.NewError(connect.CodeUnimplemented, errors.New("404"))); txn.CodeOf(err) != txn.CodeError {
		t.Errorf("unimplemented: %v", err)
	}
	if err := errors.New("plain"); wire.FromConnect(err) != err || wire.FromConnect(nil) != nil || wire.ToError(nil) != nil || wire.FromError(nil, "x", txn.ID{}) != nil {
		t.Error("plain errors and nil have to stay")
	}
}

// Invariant 3 for failures: every message gives an error.
func FuzzToError(f *testing.F) {
	seed, err := proto.Marshal(wire.FromError(&txn.Error{Op: "commit", ID: txn.ID{1}, Cause: txn.CauseTimeout, Err: txn.ErrRolledBack}, "", txn.ID{}))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, data []byte) {
		var m txmgrv1.Failure
		if proto.Unmarshal(data, &m) != nil {
			return
		}
		err := wire.ToError(&m)
		if err == nil || err.Error() == "" || txn.CodeOf(err) == txn.CodeOK {
			t.Fatalf("%v became %v", &m, err)
		}
		if txn.CodeOf(wire.FromConnect(wire.ToConnect(&m))) == txn.CodeOK {
			t.Fatalf("%v became nothing", &m)
		}
	})
}

// Every message gives a value or an error.
func FuzzToInfo(f *testing.F) {
	seed, err := proto.Marshal(wire.FromInfo(exampleInfo(f)))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, data []byte) {
		var m txmgrv1.Transaction
		if proto.Unmarshal(data, &m) != nil {
			return
		}
		i, err := wire.ToInfo(&m)
		if err != nil {
			return
		}
		if _, err := wire.ToInfo(wire.FromInfo(i)); err != nil {
			t.Fatalf("read once, not twice: %v", err)
		}
	})
}
