package ledger

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// model is what the ledger promises, without a file: prepared branches are kept as they are,
// and everything else is derived from them.
type model struct {
	balances map[string]int64
	prepared map[string]map[string]int64 // xid -> additions
	ended    map[string]participant.BranchOutcome
}

func (d *model) prepare(xid string, add map[string]int64) bool {
	if _, known := d.prepared[xid]; known || d.ended[xid] != 0 {
		return false
	}
	for name, amount := range add {
		for _, other := range d.prepared {
			if _, locked := other[name]; locked {
				return false
			}
		}
		if d.balances[name]+amount < 0 {
			return false
		}
	}
	d.prepared[xid] = maps.Clone(add)
	return true
}

func (d *model) finish(xid string, toCommit bool) participant.BranchOutcome {
	add, known := d.prepared[xid]
	switch {
	case d.ended[xid] != 0:
		return d.ended[xid]
	case !known && toCommit:
		return participant.Unknown
	case !toCommit:
		d.ended[xid] = participant.RolledBack
	default:
		d.ended[xid] = participant.Committed
		for name, amount := range add {
			d.balances[name] += amount
		}
	}
	delete(d.prepared, xid)
	return d.ended[xid]
}

// TestAgainstAModel runs random branches against the model, each step by a store of its own
// as another process would.
func TestAgainstAModel(t *testing.T) {
	dir, n := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		path := filepath.Join(dir, fmt.Sprint(n, ".db"))
		l, ctx := New("ledger", path), context.Background()
		model := &model{balances: map[string]int64{}, prepared: map[string]map[string]int64{}, ended: map[string]participant.BranchOutcome{}}
		xids, names := rapid.SampledFrom([]string{"x1", "x2", "x3"}), rapid.SampledFrom([]string{"a", "b", "c"})
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				if err := l.Verify(ctx); err != nil {
					t.Fatal(err)
				}
				got, err := l.Balances(ctx)
				if err != nil || !maps.Equal(got, model.balances) {
					t.Fatalf("balances %v, %v; want %v", got, err, model.balances)
				}
				all, err := l.Prepared(ctx)
				if err != nil || len(all) != len(model.prepared) {
					t.Fatalf("prepared %v, %v; want %v", all, err, model.prepared)
				}
			},
			"prepare": func(t *rapid.T) {
				xid, add := xids.Draw(t, "xid"), rapid.MapOfN(names, rapid.Int64Range(-3, 5), 1, 2).Draw(t, "add")
				s := newBranchTx(newStore(path), xid)
				for name, amount := range add {
					if _, err := s.do(ctx, statement{"add", []string{name}, amount}); err != nil {
						t.Fatal(err)
					}
				}
				vote, err := s.Prepare(ctx)
				if want := model.prepare(xid, add); want != (vote == txn.VotePrepared) || want != (err == nil) {
					t.Fatalf("voted %v, %v; want %v", vote, err, want)
				}
			},
			"finish": func(t *rapid.T) {
				xid, toCommit := xids.Draw(t, "xid"), rapid.Bool().Draw(t, "commit")
				how := rollback
				if toCommit {
					how = commit
				}
				got, err := newStore(path).finish(ctx, xid, how)
				if want := model.finish(xid, toCommit); err != nil || got != want {
					t.Fatalf("ended %v, %v; want %v", got, err, want)
				}
			},
		})
	})
}
