package machine

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
)

// beginAt applies one begin, without branches, and returns its result.
func beginAt(m *Machine, id txn.ID, mark txn.Mark, tick survival.Tick) Result {
	b := Begin{ID: id, Timeout: time.Minute, Survival: 600, Expiry: tick + 600, Mark: mark}
	return m.Apply(Entry{Tick: tick, Commands: []Command{b}}).Results[0]
}

// TestBeginRepeatedAfterItsOutcomeWasForgotten: a begin arrives once more when its outcome has
// been dropped, because its retention had ended or because there were too many. It begins
// nothing, also in a state that was restored from a snapshot; a new id does.
func TestBeginRepeatedAfterItsOutcomeWasForgotten(t *testing.T) {
	for name, boot := range map[string]Bootstrap{
		"by time":   {Interval: time.Second, Retention: 10 * time.Second, Retain: 1 << 40},
		"by number": {Interval: time.Second, Retention: 1000 * time.Hour, Retain: 3},
	} {
		t.Run(name, func(t *testing.T) {
			k := newRetentionFixture(t, boot)
			k.Apply(Entry{Tick: 5})
			id, mark := testID(1<<40), k.Mark()
			if r := beginAt(k.Machine, id, mark, 5); r.Code != OK || r.Mark != k.Mark() {
				t.Fatalf("begin: %+v", r)
			}
			k.Apply(Entry{Tick: 6, Commands: []Command{Commit{ID: id}}})
			if o, ok := k.Lookup(id); !ok || o.State != txn.Committed {
				t.Fatalf("after the commit: %+v, %v", o, ok)
			}
			for tick := survival.Tick(7); ; tick++ {
				if k.Apply(Entry{Tick: tick}); !k.has(id) {
					break
				}
				if r := beginAt(k.Machine, id, mark, tick); r.Code != OK || r.State != txn.Committed {
					t.Fatalf("the begin repeated while the outcome is known: %+v", r)
				}
				k.finish(2, tick)
			}
			for _, m := range []*Machine{k.Machine, restored(t, k.Machine)} {
				now := m.Tick()
				if r := beginAt(m, id, mark, now); r.Code != Forgotten || r.Mark != m.Mark() {
					t.Errorf("the begin repeated after its outcome was forgotten: code %d, state %v; want %d", r.Code, r.State, Forgotten)
				}
				if o, known := m.Lookup(id); known {
					t.Errorf("it is known again, as %v", o.State)
				}
				if r := beginAt(m, testID(1<<41), m.Mark(), now); r.Code != OK {
					t.Errorf("a begin of an id of now: code %d", r.Code)
				}
			}
		})
	}
}

// TestMarksOfOthers: a mark of another incarnation of the cluster, or one that the log has not
// reached, says nothing about an id. A begin without a mark is that of a leader that made the
// id itself.
func TestMarksOfOthers(t *testing.T) {
	m := newRetentionFixture(t, Bootstrap{Interval: time.Second, Retention: time.Hour, Retain: 1000}).Machine
	m.Apply(Entry{Tick: 100})
	for name, c := range map[string]struct {
		mark txn.Mark
		want Code
	}{
		"present":                 {txn.Mark{Tick: 101}, OK},
		"first":                   {txn.Mark{Tick: 1}, OK},
		"none":                    {txn.Mark{}, OK},
		"ahead of the log":        {txn.Mark{Tick: 102}, Forgotten},
		"of another life":         {txn.Mark{Epoch: 1795428330123, Tick: 50}, Forgotten},
		"of another life, tick 0": {txn.Mark{Epoch: 1795428330123}, Forgotten},
	} {
		if r := beginAt(m, testID(uint64(len(name))<<32), c.mark, 100); r.Code != c.want {
			t.Errorf("%s: code %d; want %d", name, r.Code, c.want)
		}
	}
}

// TestMarksOfARestoredCluster: ids of the incarnation before, of which nothing is known after a
// restore, are refused, whatever their ticks; also by the time in them.
func TestMarksOfARestoredCluster(t *testing.T) {
	k := newRetentionFixture(t, Bootstrap{Interval: time.Second, Retention: time.Hour, Retain: 1000})
	k.Apply(Entry{Tick: 100})
	s := k.Snapshot()
	defer s.Release()
	h := s.Header()
	h.Incarnation, h.RecoveryPaused = h.Incarnation+1, true
	m, err := Restore(h, withoutError(s.Sessions()), withoutError(s.Transactions()))
	if err != nil {
		t.Fatal(err)
	}
	old := txn.Mark{Tick: 150} // 49 ticks after the backup
	if r := beginAt(m, testID(1), old, 100); r.Code != RecoveryPaused {
		t.Errorf("while it is held: code %d", r.Code)
	}
	resumed := time.UnixMilli(1763740800123)
	m.Apply(Entry{Tick: 120, Wall: resumed.UnixMilli(), Commands: []Command{ResumeRecovery{By: "ann", Reason: "compared"}}})
	for _, tick := range []survival.Tick{120, 200} {
		if r := beginAt(m, testID(1), old, tick); r.Code != Forgotten {
			t.Errorf("an id of the life before, at tick %d: code %d; want %d", tick, r.Code, Forgotten)
		}
	}
	if r := beginAt(m, testID(2), m.Mark(), 200); r.Code != OK {
		t.Errorf("an id of now: code %d", r.Code)
	}
	for ago, want := range map[time.Duration]Code{-10 * time.Minute: OK, -time.Minute: Forgotten, time.Hour: Forgotten} {
		id := txn.NewID(resumed.Add(-ago), [9]byte{byte(want), 1})
		mark := m.MarkForID(id, m.Tick(), resumed.Add(10*time.Minute), time.Minute)
		if r := beginAt(m, id, mark, 800); r.Code != want {
			t.Errorf("an id from %v before the resume, by its time: mark %v, code %d; want %d", ago, mark, r.Code, want)
		}
	}
}

// TestMarkOfTheTimeInAnID: it is never later than the tick at which the id was made, if
// clocks differ by no more than the slack.
func TestMarkOfTheTimeInAnID(t *testing.T) {
	m := newRetentionFixture(t, Bootstrap{Interval: 100 * time.Millisecond, Retention: time.Hour, Retain: 1000}).Machine
	m.Apply(Entry{Tick: 36_000}) // an hour
	now := time.UnixMilli(1763740800123)
	for ago, want := range map[time.Duration]uint64{
		0:                                 36_001 - 600 - 1,
		time.Second:                       36_001 - 610 - 1,
		-time.Minute:                      36_001 - 1,
		-time.Minute - time.Second:        1, // cannot be judged
		30 * time.Minute:                  36_001 - 18_600 - 1,
		59 * time.Minute:                  1,
		24 * time.Hour:                    1,
		time.Minute - 50*time.Millisecond: 36_001 - 1199 - 1,
	} {
		if got := m.MarkForID(txn.NewID(now.Add(-ago), [9]byte{1}), m.Tick(), now, time.Minute); got != (txn.Mark{Tick: want}) {
			t.Errorf("an id from %v ago: mark %v; want %d", ago, got, want)
		}
	}
}

// TestNoLifeAfterDeath draws histories in which begins arrive repeatedly, whatever their
// outcomes, outcomes are dropped by time and by number, heuristic outcomes are found late and
// forgotten, and the state is restored from a snapshot now and then. Every transaction that
// finished at or after the horizon is known, and one that has finished never begins again.
func TestNoLifeAfterDeath(t *testing.T) {
	for seed := range uint64(40) {
		d := rand.New(rand.NewPCG(seed, 1))
		k := newRetentionFixture(t, Bootstrap{
			Interval: time.Second, Retention: time.Duration(d.IntN(400)) * time.Second, Retain: uint64(d.IntN(60)),
		})
		type known struct {
			id    txn.ID
			mark  txn.Mark
			ended survival.Tick
			over  bool
		}
		var all []*known
		refused := 0
		for tick := survival.Tick(1); tick < 1200; tick += survival.Tick(d.IntN(4)) {
			k.Apply(Entry{Tick: tick})
			switch {
			case len(all) == 0 || d.IntN(3) == 0:
				all = append(all, &known{id: testID(uint64(len(all)+1) << 20), mark: k.Mark()})
			case d.IntN(60) == 0:
				k.Machine = restored(t, k.Machine)
			}
			x := all[len(all)-1]
			if d.IntN(2) == 0 {
				x = all[d.IntN(len(all))]
			}
			b := Begin{ID: x.id, Timeout: time.Second, Survival: 1, Expiry: tick + 5, Mark: x.mark, Branches: []Branch{{Participant: "bank"}}}
			fx := k.Apply(Entry{Tick: tick, Commands: []Command{b}})
			state, code := fx.Results[0].State, fx.Results[0].Code
			if x.over && code == OK && !state.Finished() {
				t.Fatalf("seed %d, tick %d: what had finished at %d is %v by a begin with mark %v; the horizon is %d", seed, tick, x.ended, state, x.mark, k.RetentionHorizon())
			}
			if code == Forgotten {
				if refused++; x.mark.Tick > uint64(k.RetentionHorizon()) {
					t.Fatalf("seed %d, tick %d: an id with mark %v is refused; the horizon is %d", seed, tick, x.mark, k.RetentionHorizon())
				}
			}
			acks := []txn.CompletionReport{{Branch: 1, State: txn.BranchCommitted}}
			last := Command(ReportCompletion{ID: x.id, Reports: acks})
			if d.IntN(10) == 0 {
				last = ReportHeuristic{ID: x.id, Branch: 1, Heuristic: txn.HeuristicRollback, Detail: "by hand"}
			}
			k.Apply(Entry{Tick: tick, Commands: []Command{
				Commit{ID: x.id, Votes: []txn.BranchVote{{Branch: 1, Vote: txn.VotePrepared}}}, last,
			}})
			if d.IntN(4) == 0 {
				k.Apply(Entry{Tick: tick, Commands: []Command{Forget{ID: all[d.IntN(len(all))].id, By: "ann", Reason: "repaired"}}})
			}
			for _, x := range all {
				switch g, ok := k.Get(x.id); {
				case ok && g.State.Finished():
					x.over, x.ended = true, g.Ended
				case !ok && x.over && x.ended >= k.RetentionHorizon():
					t.Fatalf("seed %d, tick %d: what finished at %d is not known, and the horizon is %d", seed, tick, x.ended, k.RetentionHorizon())
				}
			}
			if k.RetentionHorizon() > k.Tick() {
				t.Fatalf("seed %d: the horizon %d is ahead of the tick %d", seed, k.RetentionHorizon(), k.Tick())
			}
		}
		k.checkInvariants(t)
		if seed == 0 && refused == 0 {
			t.Error("nothing was refused")
		}
	}
}
