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
		AddParticipant{admin.Participant{Name: "stock", Kind: "ledger"}},
		AddParticipant{admin.Participant{Name: "post", Kind: "ledger"}},
		AddParticipant{admin.Participant{Name: "web", Kind: "web", CoordinatorPrepares: true}},
	}}
}

func drawBranches(t *rapid.T) (bs []Branch) {
	decider := []string{"", "bank", "bank", "stock", "stock", "web", "two"}[evenly(t, 7, "decider")]
	for _, p := range []string{"bank", "stock", "web"} {
		if evenly(t, 6, p) < map[string]int{"bank": 4, "stock": 3, "web": 1}[p] {
			bs = append(bs, Branch{
				Participant: p, SessionRef: rapid.SampledFrom([]string{"", "s1"}).Draw(t, "session"),
				Decides: p == decider || decider == "two" && p != "web",
			})
		}
	}
	return bs
}

// drawReports makes reports of the ends of up to three branches, which mostly are alike.
func drawReports(t *rapid.T) (all []txn.CompletionReport) {
	ends := rapid.SampledFrom([]txn.BranchState{txn.BranchCommitted, txn.BranchRolledBack})
	end, mixed := ends.Draw(t, "end"), rapid.IntRange(0, 7).Draw(t, "mixed") == 0
	for _, b := range rapid.SliceOfN(rapid.IntRange(0, 3), 0, 4).Draw(t, "ended") {
		if mixed {
			end = ends.Draw(t, "end")
		}
		all = append(all, txn.CompletionReport{Branch: txn.BranchID(b), State: end})
	}
	if rapid.IntRange(0, 2).Draw(t, "in order") > 0 {
		n := rapid.IntRange(1, 3).Draw(t, "branches")
		all = all[:0]
		for b := range n {
			all = append(all, txn.CompletionReport{Branch: txn.BranchID(n - b), State: end})
		}
	}
	return all
}

func drawCommand(t *rapid.T, tick survival.Tick) Command {
	id := testID(rapid.Uint64Range(1, 5).Draw(t, "id"))
	branch := txn.BranchID(rapid.IntRange(0, 3).Draw(t, "branch"))
	expiry := tick + survival.Tick(rapid.IntRange(0, 6).Draw(t, "expiry"))
	switch evenly(t, 21, "command") {
	case 17, 18:
		return drawSessions(t)
	case 0, 1, 2:
		name := rapid.SampledFrom([]string{"n", "a name that needs more than one cell to be held"}).Draw(t, "name")
		return Begin{ID: id, Name: name, Timeout: time.Second, Survival: 2, Expiry: expiry, Branches: drawBranches(t), Session: drawSession(t)}
	case 3, 16:
		return Enlist{ID: id, Branch: Branch{
			Participant: rapid.SampledFrom([]string{"bank", "stock", "bank", "stock", "web", "unknown"}).Draw(t, "at"),
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
		return ReportCompletion{id, drawReports(t)}
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
	first := txn.BranchID(rapid.IntRange(1, 3).Draw(t, "first"))
	for b := range txn.BranchID(rapid.IntRange(0, 3).Draw(t, "votes")) {
		votes = append(votes, txn.BranchVote{Branch: first + b, Vote: kinds.Draw(t, "vote")})
	}
	return votes
}

// evenly draws one of 0 to n-1, of 64 at most. The other draws of package rapid prefer small numbers, which would leave most of
// a long list untried.
func evenly(t *rapid.T, n int, label string) int {
	x := 0
	for _, bit := range rapid.SliceOfN(rapid.Bool(), 6, 6).Draw(t, label) {
		x *= 2
		if bit {
			x++
		}
	}
	return x * n / 64
}

// drawDeciding makes a command about one of some transactions that have, or lose, a branch whose own end decides.
func drawDeciding(t *rapid.T, tick survival.Tick) Command {
	id := testID(uint64(1 + evenly(t, 4, "id")))
	branch := txn.BranchID(1 + evenly(t, 3, "branch"))
	yes := rapid.Map(rapid.Uint16Range(1, 3), func(b uint16) txn.BranchVote {
		return txn.BranchVote{Branch: txn.BranchID(b), Vote: txn.VotePrepared}
	})
	switch evenly(t, 24, "command") {
	case 0, 1:
		return Begin{ID: id, Timeout: time.Second, Survival: 2, Expiry: tick + survival.Tick(evenly(t, 20, "expiry")), Branches: drawBranches(t)}
	case 2, 3, 4, 5, 6, 7:
		flags := [][2]bool{{true, true}, {true, true}, {true, false}, {false, true}, {false, false}}[evenly(t, 5, "decides, revokes")]
		return Enlist{ID: id, Branch: Branch{
			Participant: []string{"bank", "stock", "post", "post", "web"}[evenly(t, 5, "at")],
			SessionRef:  rapid.SampledFrom([]string{"", "", "s1", "s2"}).Draw(t, "session"),
			Decides:     flags[0], Revokes: flags[1],
		}}
	case 8, 9:
		return ReportCompletion{id, drawReports(t)}
	case 10:
		return Vote{ID: id, Votes: []txn.BranchVote{{Branch: branch, Vote: txn.VoteNo}}, Reason: "it rolled back"}
	case 11:
		return Commit{ID: id, Votes: rapid.SliceOfN(yes, 0, 3).Draw(t, "votes")}
	case 12:
		return Vote{ID: id, Votes: rapid.SliceOfN(yes, 1, 2).Draw(t, "votes")}
	case 13:
		return ReportHeuristic{ID: id, Branch: branch, Heuristic: txn.HeuristicHazard, Detail: "the log was cut"}
	case 14:
		end := []txn.BranchState{txn.BranchCommitted, txn.BranchRolledBack}[evenly(t, 2, "stated")]
		return Resolve{ID: id, Branch: txn.BranchID(evenly(t, 3, "named")), Outcome: end, By: "ann", Reason: "looked", Decides: true}
	case 15:
		return Rollback{id, txn.CauseClient, "because"}
	case 16:
		return EndedByApplication{ID: id, Branch: branch, Reason: "COMMIT was typed"}
	case 17:
		return Delegate{id, branch}
	}
	return drawCommand(t, tick)
}

// drawEntry makes an entry; its tick never falls behind.
func drawEntry(t *rapid.T, tick survival.Tick, draw func(*rapid.T, survival.Tick) Command) Entry {
	e := Entry{Tick: tick + survival.Tick(rapid.IntRange(0, 2).Draw(t, "ticks")), Wall: rapid.Int64Range(1, 9).Draw(t, "wall"), Index: rapid.Uint64Range(1, 99).Draw(t, "index")}
	if evenly(t, 20, "pause") == 1 {
		e.Tick += survival.Tick(rapid.IntRange(0, 2100).Draw(t, "paused"))
	}
	for range evenly(t, 5, "commands") {
		e.Commands = append(e.Commands, draw(t, e.Tick))
	}
	return e
}

// TestRandomHistories compares the machine with the slow and obvious model.
func TestRandomHistories(t *testing.T) { checkHistories(t, drawCommand) }

// TestHistoriesOfDeciders does so for transactions of several branches, one of which decides.
func TestHistoriesOfDeciders(t *testing.T) { checkHistories(t, drawDeciding) }

func checkHistories(t *testing.T, draw func(*rapid.T, survival.Tick) Command) {
	rapid.Check(t, func(t *rapid.T) {
		boot := drawBoot(t)
		m, model := New(), newModel(boot, map[string]bool{"bank": false, "stock": false, "post": false, "web": true})
		m.Apply(setup(boot))
		for _, p := range []string{"bank", "stock", "post", "web"} {
			model.appendAudit(AuditRecord{Action: ActionAddParticipant, Subject: p})
		}
		for range 1 + evenly(t, 40, "entries") {
			if evenly(t, 30, "disaster") == 1 {
				m, model.held, model.restored = restoredPaused(t, m), true, true
				compare(t, m, model) // before a command hides what the restore has lost
			}
			e := drawEntry(t, m.Tick(), draw)
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
			ids = append(ids, m.txs.At(uint32(slot)).id)
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
	if m.txs.Len()+m.retained.ring.Len() != len(model.txs) {
		t.Fatalf("%d records and %d outcomes; the model has %d", m.txs.Len(), m.retained.ring.Len(), len(model.txs))
	}
	for id, want := range model.txs {
		got, ok := m.Get(id)
		if !ok || got.State != want.state || got.Cause != want.cause || got.Heuristic != want.hazard || got.ClientCompletes != want.own || len(got.Branches) != len(want.branches) ||
			got.Name != want.name || got.Reason != want.reason || got.Decided != want.decided || got.DecidedTick != want.at || got.DecidedIndex != want.entry || got.Session != want.session || got.Delegated() != want.delegated() || got.Appointed() != want.appointed() || int(got.Decider()) != want.decider {
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
		draw := rapid.SampledFrom([]func(*rapid.T, survival.Tick) Command{drawCommand, drawDeciding}).Draw(t, "of")
		m := New()
		m.Apply(setup(drawBoot(t)))
		var copies []*Machine
		for range 1 + evenly(t, 25, "entries") {
			e := drawEntry(t, m.Tick(), draw)
			if evenly(t, 30, "disaster") == 1 {
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
