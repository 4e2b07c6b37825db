package machine

import (
	"iter"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// historyBoots are ways to retain outcomes: for so many ticks, in containers of a tick or of
// several, and so many of them.
var historyBoots = []Bootstrap{
	{Cluster: "c1", Interval: time.Second, Retention: 4 * time.Second, Retain: 3},
	{Cluster: "c1", Interval: time.Second, Retention: 2000 * time.Second, Retain: 3},
	{Cluster: "c1", Interval: time.Second, Retention: 730 * time.Second, Retain: 100},
	{Cluster: "c1", Interval: time.Second, Retention: 3 * time.Second},
	{Cluster: "c1", Interval: time.Second, Retain: 3},
}

func drawBoot(t *rapid.T) Bootstrap { return rapid.SampledFrom(historyBoots).Draw(t, "boot") }

// setup is the first entry of every random history.
func setup(boot Bootstrap) Entry {
	return Entry{Commands: []Command{
		boot,
		AddParticipant{admin.Participant{Name: "bank", Kind: "ledger"}},
		AddParticipant{admin.Participant{Name: "web", Kind: "web", CoordinatorPrepares: true}},
	}}
}

func drawBranches(t *rapid.T) (bs []Branch) {
	for _, p := range []string{"bank", "web"} {
		if rapid.Bool().Draw(t, p) {
			bs = append(bs, Branch{
				Participant: p, SessionRef: rapid.SampledFrom([]string{"", "s1"}).Draw(t, "session"),
				Decides: p == "bank" && rapid.IntRange(0, 2).Draw(t, "decides") > 0 || rapid.IntRange(0, 9).Draw(t, "decides, too") == 0,
			})
		}
	}
	return bs
}

func drawCommand(t *rapid.T, tick survival.Tick) Command {
	id := testID(rapid.Uint64Range(1, 5).Draw(t, "id"))
	branch := txn.BranchID(rapid.IntRange(0, 3).Draw(t, "branch"))
	expiry := tick + survival.Tick(rapid.IntRange(0, 6).Draw(t, "expiry"))
	switch rapid.IntRange(0, 19).Draw(t, "command") {
	case 17, 18, 19:
		return drawSessions(t)
	case 0, 1, 2:
		name := rapid.SampledFrom([]string{"n", "a name that needs more than one cell to be held"}).Draw(t, "name")
		return Begin{ID: id, Name: name, Timeout: time.Second, Survival: 2, Expiry: expiry, Branches: drawBranches(t), Session: drawSession(t)}
	case 3:
		return Enlist{ID: id, Branch: Branch{
			Participant: rapid.SampledFrom([]string{"bank", "web", "nobody"}).Draw(t, "at"),
			SessionRef:  rapid.SampledFrom([]string{"", "s1", "s2"}).Draw(t, "session"),
			Decides:     rapid.Bool().Draw(t, "decides"), Revokes: rapid.Bool().Draw(t, "revokes"),
		}}
	case 4, 5:
		return Commit{ID: id, Votes: drawVotes(t), ClientCompletes: rapid.Bool().Draw(t, "own")}
	case 6:
		return Rollback{id, rapid.SampledFrom([]txn.Cause{txn.CauseClient, txn.CauseOperator}).Draw(t, "cause"), "because"}
	case 7:
		return Extend{id, time.Second, 2, expiry}
	case 8:
		s := rapid.SampledFrom([]txn.BranchState{txn.BranchCommitted, txn.BranchRolledBack}).Draw(t, "end")
		acks := []txn.CompletionReport{{Branch: branch, State: s}}
		return ReportCompletion{id, acks[:rapid.SampledFrom([]int{1, 1, 1, 0}).Draw(t, "acks")]}
	case 10:
		return Vote{ID: id, Votes: drawVotes(t), ClientCompletes: rapid.Bool().Draw(t, "own"), Reason: "no room"}
	case 11:
		return Delegate{id, rapid.SampledFrom([]txn.BranchID{1, 1, 1, branch}).Draw(t, "sole")}
	case 12, 13:
		return Resolve{
			ID: id, Branch: rapid.SampledFrom([]txn.BranchID{0, branch}).Draw(t, "named"),
			Outcome: rapid.SampledFrom([]txn.BranchState{txn.BranchCommitted, txn.BranchRolledBack}).Draw(t, "end"),
			By:      rapid.SampledFrom([]string{"", "ann"}).Draw(t, "by"), Reason: rapid.SampledFrom([]string{"looked", "asked"}).Draw(t, "reason"),
			Decides: rapid.Bool().Draw(t, "decides"),
		}
	case 9:
		return EndedByApplication{ID: id, Branch: branch, Reason: "COMMIT was typed"}
	case 14, 15:
		return drawCluster(t)
	default:
		if rapid.Bool().Draw(t, "forget") {
			return Forget{ID: id, By: "bob", Reason: "seen"}
		}
		return ReportHeuristic{ID: id, Branch: branch, Heuristic: rapid.SampledFrom([]txn.Heuristic{txn.HeuristicCommit, txn.HeuristicRollback, txn.HeuristicHazard}).Draw(t, "hazard"), Detail: "detail", Legacy: rapid.IntRange(0, 3).Draw(t, "legacy") == 0}
	}
}

func drawVotes(t *rapid.T) (votes []txn.BranchVote) {
	kinds := rapid.SampledFrom([]txn.Vote{txn.VotePrepared, txn.VotePrepared, txn.VotePrepared, txn.VoteReadOnly, txn.VoteNo, txn.VoteDelegated, txn.VoteEndedByApplication})
	first := txn.BranchID(rapid.IntRange(1, 2).Draw(t, "first"))
	for b := range txn.BranchID(rapid.IntRange(0, 3).Draw(t, "votes")) {
		votes = append(votes, txn.BranchVote{Branch: first + b, Vote: kinds.Draw(t, "vote")})
	}
	return votes
}

// drawEntry makes an entry; its tick never falls behind.
func drawEntry(t *rapid.T, tick survival.Tick) Entry {
	e := Entry{Tick: tick + survival.Tick(rapid.IntRange(0, 2).Draw(t, "ticks")), Wall: rapid.Int64Range(1, 9).Draw(t, "wall"), Index: rapid.Uint64Range(1, 99).Draw(t, "index")}
	if rapid.IntRange(0, 19).Draw(t, "pause") == 0 {
		e.Tick += survival.Tick(rapid.IntRange(0, 2100).Draw(t, "paused"))
	}
	for range rapid.IntRange(0, 4).Draw(t, "commands") {
		e.Commands = append(e.Commands, drawCommand(t, e.Tick))
	}
	return e
}

// TestRandomHistories compares the machine with the slow and obvious model.
func TestRandomHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		boot := drawBoot(t)
		m, model := New(), newModel(boot, map[string]bool{"bank": false, "web": true})
		m.Apply(setup(boot))
		for _, p := range []string{"bank", "web"} {
			model.appendAudit(AuditRecord{Action: ActionAddParticipant, Subject: p})
		}
		for range rapid.IntRange(1, 40).Draw(t, "entries") {
			if rapid.IntRange(0, 29).Draw(t, "disaster") == 0 {
				m, model.held, model.restored = restoredPaused(t, m), true, true
				compare(t, m, model) // before a command hides what the restore has lost
			}
			e := drawEntry(t, m.Tick())
			drained := dueAt(m, e.Tick)
			fx := m.Apply(e)
			model.advance(e, drained)
			for i, c := range e.Commands {
				if want := model.apply(c); fx.Results[i].Code != want {
					t.Fatalf("%T %+v: %s; the model says %s", c, c, codeNames[fx.Results[i].Code], codeNames[want])
				}
			}
			model.expireSessions()
			model.trim()
			if err := m.CheckInvariants(); err != nil {
				t.Fatal(err)
			}
			compare(t, m, model)
		}
	})
}

// dueAt lists what an entry with this tick moves, in order.
func dueAt(m *Machine, tick survival.Tick) (ids []txn.ID) {
	for slot, end := range m.deadlines.All() {
		if end <= tick {
			ids = append(ids, m.txs.at(uint32(slot)).id)
		}
	}
	return ids
}

func compare(t *rapid.T, m *Machine, model *model) {
	if got, want := m.Counts(), model.count(); got != want {
		t.Fatalf("counts %+v; the model has %+v", got, want)
	}
	if d := cmp.Diff(model.trail, m.Audit(), cmpopts.EquateEmpty()); d != "" {
		t.Fatalf("audit trail (-model +machine):\n%s", d)
	}
	compareCluster(t, m, model)
	compareSessions(t, m, model)
	if m.txs.len()+m.retained.ring.Len() != len(model.txs) {
		t.Fatalf("%d records and %d outcomes; the model has %d", m.txs.len(), m.retained.ring.Len(), len(model.txs))
	}
	for id, want := range model.txs {
		got, ok := m.Get(id)
		if !ok || got.State != want.state || got.Cause != want.cause || got.Heuristic != want.hazard || got.ClientCompletes != want.own || len(got.Branches) != len(want.branches) ||
			got.Name != want.name || got.Reason != want.reason || got.Decided != want.decided || got.DecidedTick != want.at || got.DecidedIndex != want.entry || got.Session != want.session || got.Delegated() != want.delegated() || got.Appointed() != want.appointed() {
			t.Fatalf("%v: %+v; the model has %+v", id, got, want)
		}
		if o, _ := m.Lookup(id); o.EndedByApplication != got.EndedByApplication() {
			t.Fatalf("%v: looked up as %+v; it is %+v", id, o, got)
		}
		for i, b := range got.Branches {
			if w := want.branches[i]; b.Vote != w.vote || b.State != w.state || b.Heuristic != w.hazard || b.Participant != w.at || b.Detail != w.detail || b.SessionRef != w.place && !got.State.Finished() {
				t.Fatalf("%v: branch %d is %+v; the model has %+v", id, i+1, b, *w)
			}
		}
	}
}

// TestSnapshotAndTail: a snapshot at any cut and the entries after it give the
// same state, results and work as all entries; so does a second replay.
func TestSnapshotAndTail(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := New()
		m.Apply(setup(drawBoot(t)))
		var copies []*Machine
		for range rapid.IntRange(1, 25).Draw(t, "entries") {
			e := drawEntry(t, m.Tick())
			if rapid.IntRange(0, 29).Draw(t, "disaster") == 0 {
				m, copies = restoredPaused(t, m), nil
			}
			s := m.Snapshot()
			fx := m.Apply(e)
			r, err := Restore(s.Header(), withoutError(s.Sessions()), withoutError(s.Transactions()))
			s.Release()
			if err != nil {
				t.Fatal(err)
			}
			r.Apply(e)
			copies = append(copies, r)
			for _, c := range copies[:len(copies)-1] {
				if got := c.Apply(e); !sameEffects(got, fx) {
					t.Fatalf("effects %+v after a restore; %+v before", got, fx)
				}
			}
			for i, c := range copies {
				if err := c.CheckInvariants(); err != nil {
					t.Fatal(err)
				}
				if c.Hash() != m.Hash() {
					t.Fatalf("the copy of cut %d has another state", i)
				}
			}
		}
	})
}

func withoutError[T any](all iter.Seq[T]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for t := range all {
			if !yield(t, nil) {
				return
			}
		}
	}
}

// nothing yields nothing, for a snapshot that holds none.
func nothing[T any](func(T, error) bool) {}
