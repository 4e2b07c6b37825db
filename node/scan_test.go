package node

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// hangingScan is a participant that does not answer a listing of its prepared branches.
type hangingScan struct{ *fakeParticipant }

func (hangingScan) Prepared(ctx context.Context, _ string) ([]participant.Prepared, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// leftBehind rolls a transaction back at each of the participants and prepares it there
// afterwards.
func leftBehind(t *testing.T, n *Node, at map[string]*fakeParticipant) {
	t.Helper()
	for name, d := range at {
		b := beginAt(t, n, time.Minute, name)
		if _, err := n.Rollback(t.Context(), b.ID, ""); err != nil {
			t.Fatal(err)
		}
		finished(t, n, b.ID)
		d.prepare(b.Branches[0].XID)
	}
}

func withoutSweep(c *Config) { c.Recovery.SweepEvery = -1 }

// TestScanGoesOn: participants that cannot be scanned are reported, and hide none of the
// others, before or after them.
func TestScanGoesOn(t *testing.T) {
	for _, apply := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			a, m, z := newFakeParticipant(), newFakeParticipant(), newFakeParticipant()
			n := open(t, t.TempDir(), slow, withoutSweep, with(participantMap{"a": a, "dead": m, "hung": hangingScan{newFakeParticipant()}, "hung2": hangingScan{newFakeParticipant()}, "z": z}))
			leftBehind(t, n, map[string]*fakeParticipant{"a": a, "z": z})
			m.outage(errors.New("dial postgres://app:s3cret@db/x: refused"))
			start := time.Now()
			fs, err := n.Admin().Scan(t.Context(), "", apply)
			if err != nil || len(fs) != 5 {
				t.Fatalf("%+v, %v", fs, err)
			}
			for i, want := range []struct{ name, verdict, text string }{
				{"a", "rollback", ""},
				{"dead", "unreachable", "dial postgres://app:***@db/x: refused"},
				{"hung", "unreachable", "no answer within 10s"},
				{"hung2", "unreachable", "no answer within 10s"},
				{"z", "rollback", ""},
			} {
				f := fs[i]
				if f.Participant != want.name || f.Class != want.verdict || !strings.Contains(f.Error, want.text) || (f.Error == "") != (want.text == "") {
					t.Errorf("%+v, want %+v", f, want)
				}
				if f.Done != (apply && f.Class == "rollback") {
					t.Errorf("done %v: %+v", f.Done, f)
				}
			}
			if took := time.Since(start); took > 11*time.Second {
				t.Errorf("took %v", took)
			}
			for _, name := range []string{"dead", "hung"} {
				_, err = n.Admin().Scan(t.Context(), name, apply)
				wantErr(t, "scan "+name, err, `participant "`+name+`"`)
			}
		})
	}
}

// TestScanThatIsGivenUp reports that: there may be more at any of the remaining participants.
func TestScanThatIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newFakeParticipant()
		n := open(t, t.TempDir(), slow, withoutSweep, with(participantMap{"a": a, "hung": hangingScan{newFakeParticipant()}}))
		leftBehind(t, n, map[string]*fakeParticipant{"a": a})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		fs, err := n.Admin().Scan(ctx, "", false)
		wantErr(t, "scan", err, txn.ErrUnavailable, context.DeadlineExceeded)
		if len(fs) == 0 || fs[0].Participant != "a" || fs[0].Class != "rollback" {
			t.Errorf("%+v", fs)
		}
	})
}
