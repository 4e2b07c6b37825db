package machine

import (
	"runtime"
	"slices"
	"testing"
	"time"
	"weak"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// TestOutcomesAreKeptForTheRetention: whatever the retention and the interval are, an outcome
// is on the belt until its retention has ended, and at most two steps longer; and a step is
// short.
func TestOutcomesAreKeptForTheRetention(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct{ interval, retention time.Duration }{
		{time.Second, 0},
		{time.Second, time.Second / 2},
		{time.Minute, time.Minute},
		{time.Second, 4 * time.Second},
		{time.Second, 239 * time.Second},
		{time.Second, 240 * time.Second},
		{time.Second, 241 * time.Second},
		{time.Second, 2000 * time.Second},
		{100 * time.Millisecond, time.Hour},
		{100 * time.Millisecond, day},
		{time.Millisecond, 30 * day},
		{time.Minute, 365 * day},
		{time.Nanosecond, 1<<63 - 1},
	} {
		boot := Bootstrap{Interval: c.interval, Retention: c.retention}
		retention := survival.Tick(c.retention / c.interval)
		step := newRetained(boot, 0, nil).step
		longest := max(c.interval, maxStep, c.retention/maxSteps+c.interval)
		if step > 1 && (time.Duration(step)*c.interval > longest || step > retention/retentionSteps+1) {
			t.Errorf("%v of %v: a step of %d ticks", c.retention, c.interval, step)
		}
		for _, at := range []survival.Tick{0, 1, step - 1, step, 7*step - 1, 7 * step, 1 << 40} {
			k := newRetained(boot, at, nil)
			off := k.dropAt(at) * k.step
			if stays := off - at; stays < max(retention, 1) || stays > retention+2*step {
				t.Errorf("%v of %v, in steps of %d: what finished at tick %d falls off at %d", c.retention, c.interval, step, at, off)
			}
		}
	}
}

// retentionFixture is a machine in which whatever is begun finishes.
type retentionFixture struct {
	*Machine
	n uint64
}

func newRetentionFixture(t *testing.T, boot Bootstrap) *retentionFixture {
	t.Helper()
	boot.Cluster = "c1"
	k := &retentionFixture{Machine: New()}
	do(t, k.Machine, boot, AddParticipant{admin.Participant{Name: "bank", Kind: "ledger"}}, AddParticipant{admin.Participant{Name: "stock", Kind: "ledger"}})
	return k
}

// finish begins and finishes n transactions at a tick.
func (k *retentionFixture) finish(n int, tick survival.Tick) (ids []txn.ID) {
	for range n {
		k.n++
		live(k.Machine, k.n, tick)
		ids = append(ids, spread(k.n))
	}
	return ids
}

func (k *retentionFixture) has(id txn.ID) bool {
	_, ok := k.Lookup(id)
	return ok
}

func (k *retentionFixture) checkInvariants(t *testing.T) {
	t.Helper()
	if err := k.CheckInvariants(); err != nil {
		t.Error(err)
	}
}

// TestEachOutcomeFallsOffInItsTime: in a running machine, too, and in one that was restored at every tick.
func TestEachOutcomeFallsOffInItsTime(t *testing.T) {
	const retention, step = 500, 3
	boot := Bootstrap{Interval: time.Second, Retention: retention * time.Second, Retain: 1 << 40}
	k, again := newRetentionFixture(t, boot), newRetentionFixture(t, boot)
	ended := map[txn.ID]survival.Tick{}
	for tick := survival.Tick(1); tick < 2*retention; tick++ {
		for _, x := range []*retentionFixture{k, again} {
			x.Apply(Entry{Tick: tick})
			if tick < retention/3 {
				for _, id := range x.finish(1, tick) {
					ended[id] = tick
				}
			}
		}
		again.Machine = restored(t, again.Machine)
		for id, at := range ended {
			has := k.has(id)
			if has != again.has(id) || !has && tick < at+retention || has && tick >= at+retention+2*step {
				t.Fatalf("tick %d: what finished at %d is there: %v; after a restore: %v", tick, at, has, again.has(id))
			}
		}
	}
	if k.retained.ring.Len() != 0 || len(ended) == 0 {
		t.Errorf("%d of %d are left", k.retained.ring.Len(), len(ended))
	}
}

func restored(t *testing.T, m *Machine) *Machine {
	t.Helper()
	s := m.Snapshot()
	defer s.Release()
	r, err := Restore(s.Header(), withoutError(s.Sessions()), withoutError(s.Transactions()))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.CheckInvariants(); err != nil || r.Hash() != m.Hash() {
		t.Fatalf("restored as another state; check: %v", err)
	}
	return r
}

// TestTooManyOutcomes: the newest are retained, and at most what finished in one step more,
// which is little for a long retention.
func TestTooManyOutcomes(t *testing.T) {
	const retain, each, step = 1000, 3, 150
	k := newRetentionFixture(t, Bootstrap{Interval: 100 * time.Millisecond, Retention: 240 * time.Hour, Retain: retain})
	if k.retained.step != step {
		t.Fatalf("a step is %d ticks", k.retained.step)
	}
	var ids []txn.ID
	for tick := survival.Tick(1); tick < 2000; tick++ {
		ids = append(ids, k.finish(each, tick)...)
		n := k.retained.ring.Len()
		if n < min(retain, len(ids)) || n >= retain+each*step {
			t.Fatalf("tick %d: %d of %d are kept", tick, n, len(ids))
		}
		if !k.has(ids[len(ids)-n]) || n < len(ids) && k.has(ids[len(ids)-n-1]) {
			t.Fatalf("tick %d: %d are kept, and not the newest", tick, n)
		}
	}
	k.checkInvariants(t)
	k.Machine = restored(t, k.Machine)
	if k.retained.ring.Len() == len(ids) {
		t.Error("nothing fell off")
	}
}

// TestNoOutcomeOfThePresentStepGoes: not even when none is to be retained.
func TestNoOutcomeOfThePresentStepGoes(t *testing.T) {
	k := newRetentionFixture(t, Bootstrap{Interval: 100 * time.Millisecond, Retention: time.Hour})
	ids := k.finish(10, 149)
	k.checkInvariants(t)
	for _, id := range ids {
		if !k.has(id) {
			t.Errorf("%v is gone", id)
		}
	}
	if k.Apply(Entry{Tick: 150}); k.retained.ring.Len() != 0 {
		t.Errorf("%d are left in the next step", k.retained.ring.Len())
	}
}

// TestMoreThanEnoughWithOneEntry: one entry finishes more outcomes than are to be retained, and
// drops the older ones.
func TestMoreThanEnoughWithOneEntry(t *testing.T) {
	k := newRetentionFixture(t, Bootstrap{Interval: time.Second, Retention: time.Minute, Retain: 3})
	old := k.finish(2, 1)
	for i := range uint64(5) {
		do(t, k.Machine, Begin{ID: testID(i + 1), Timeout: time.Second, Expiry: 9})
	}
	k.Apply(Entry{Tick: 9})
	k.checkInvariants(t)
	if n := k.retained.ring.Len(); n != 5 || k.has(old[1]) || !k.has(testID(1)) {
		t.Errorf("%d are kept, want the five of the last entry", n)
	}
	restored(t, k.Machine)
}

// TestAllFallOffWithOneEntry: however many finished together.
func TestAllFallOffWithOneEntry(t *testing.T) {
	k := newRetentionFixture(t, Bootstrap{Interval: time.Second, Retention: time.Minute, Retain: 1 << 40})
	k.finish(5*ExpireBatch, 1)
	if k.Apply(Entry{Tick: 60}); k.retained.ring.Len() != 5*ExpireBatch {
		t.Errorf("%d are there, and their retention is not over", k.retained.ring.Len())
	}
	if k.Apply(Entry{Tick: 61}); k.retained.ring.Len() != 0 || k.Counts().Finished != 0 {
		t.Errorf("%d are left", k.retained.ring.Len())
	}
	k.checkInvariants(t)
}

// TestLateHeuristicOutcomeEndsRetention: it is a record then, until the heuristic outcome is
// forgotten; from then on it is retained as if it had just finished.
func TestLateHeuristicOutcomeEndsRetention(t *testing.T) {
	const retention = 100
	k := newRetentionFixture(t, Bootstrap{Interval: time.Second, Retention: retention * time.Second, Retain: 1 << 40})
	ids := k.finish(3, 1)
	before, _ := k.Get(ids[1])
	do(t, k.Machine, ReportHeuristic{ID: ids[1], Branch: 2, Heuristic: txn.HeuristicRollback, Detail: "by hand"})
	if k.retained.ring.Len() != 2 || k.txs.Len() != 1 || k.Counts().Heuristics != 1 || k.Counts().Finished != 3 {
		t.Errorf("%d on the belt, %d records, %+v", k.retained.ring.Len(), k.txs.Len(), k.Counts())
	}
	after, _ := k.Get(ids[1])
	before.Heuristic = txn.HeuristicMixed
	before.Branches[1].State, before.Branches[1].Heuristic, before.Branches[1].Detail = txn.BranchHeuristic, txn.HeuristicRollback, "by hand"
	if d := cmp.Diff(before, after); d != "" {
		t.Errorf("the late hazard changed more than itself (-want +got):\n%s", d)
	}
	k.Machine = restored(t, k.Machine)
	k.Apply(Entry{Tick: 10 * retention})
	if k.has(ids[0]) || !k.has(ids[1]) {
		t.Error("only what has a heuristic outcome stays beyond the retention")
	}
	do(t, k.Machine, Forget{ID: ids[1], Reason: "paid", By: "ann"})
	if k.retained.ring.Len() != 1 || k.txs.Len() != 0 || k.Counts().Heuristics != 0 {
		t.Errorf("forgotten: %d on the belt, %d records, %+v", k.retained.ring.Len(), k.txs.Len(), k.Counts())
	}
	k.Machine = restored(t, k.Machine)
	if k.Apply(Entry{Tick: 11*retention - 1}); !k.has(ids[1]) {
		t.Error("gone before the retention that began with the forgetting was over")
	}
	if k.Apply(Entry{Tick: 11*retention + 2}); k.has(ids[1]) {
		t.Error("kept beyond the retention")
	}
}

// TestCommandsLeaveNothingOfAnOutcome: commands that change nothing neither make the outcome
// larger nor take memory.
func TestCommandsLeaveNothingOfAnOutcome(t *testing.T) {
	k := newRetentionFixture(t, Bootstrap{Interval: time.Second, Retention: time.Hour, Retain: 1 << 40})
	id := k.finish(1, 1)[0]
	arena, hash := k.arenas()[0], k.Hash()
	chunks := len(arena.chunks[0].bytes)
	for range 3 {
		k.Apply(Entry{Commands: []Command{
			Begin{ID: id},
			Enlist{ID: id, Branch: Branch{Participant: "bank"}},
			Commit{ID: id},
			Vote{ID: id, Reason: "r"},
			Delegate{id, 1},
			Rollback{ID: id, Cause: txn.CauseClient, Reason: "r"},
			Extend{ID: id, Timeout: 1, Expiry: 99},
			ReportCompletion{ID: id, Reports: []txn.CompletionReport{{Branch: 1, State: txn.BranchCommitted}}},
			ReportHeuristic{ID: id, Branch: 1, Heuristic: txn.HeuristicHazard},
			ReportHeuristic{ID: id, Branch: 1, Heuristic: txn.HeuristicRollback, Legacy: true},
			Forget{ID: id, Reason: "r"},
			Resolve{ID: id, Branch: 1, Outcome: txn.BranchRolledBack, Reason: "r", By: "ann"},
		}})
		k.checkInvariants(t)
	}
	if k.Hash() != hash || len(arena.chunks[0].bytes) != chunks || arena != k.arenas()[0] || k.strings.Len() != 0 || k.txs.Len() != 0 {
		t.Errorf("the state changed: %v; %d bytes, had %d; %d cells, %d records", k.Hash() != hash, len(arena.chunks[0].bytes), chunks, k.strings.Len(), k.txs.Len())
	}
}

func (k *retentionFixture) arenas() (all []*arena) {
	for _, c := range k.retained.ring.Containers() {
		all = append(all, c.(*arena))
	}
	return all
}

// TestASnapshotKeepsItsOutcomes: while another goroutine reads it, outcomes are added, taken
// off the belt, and dropped.
func TestASnapshotKeepsItsOutcomes(t *testing.T) {
	k := newRetentionFixture(t, Bootstrap{Interval: time.Second, Retention: time.Minute, Retain: 1 << 40})
	ids := slices.Concat(k.finish(400, 1), k.finish(400, 2))
	s := k.Snapshot()
	var want []Transaction
	for _, id := range ids {
		x, _ := k.Get(id)
		want = append(want, x)
	}
	read := make(chan []Transaction)
	go func() {
		for range 3 {
			var got []Transaction
			for x := range s.Transactions() {
				x := *x
				x.Labels, x.Branches = slices.Clone(x.Labels), slices.Clone(x.Branches)
				got = append(got, x)
			}
			read <- got
		}
		close(read)
	}()
	for i, id := range ids {
		if i%3 == 0 {
			k.Apply(Entry{Commands: []Command{ReportHeuristic{ID: id, Branch: 1, Heuristic: txn.HeuristicRollback}}})
		}
		k.finish(1, 2)
	}
	first := <-read
	k.Apply(Entry{Tick: 1000})
	k.finish(400, 1000)
	for got := range read {
		for _, got := range [][]Transaction{first, got} {
			if !cmp.Equal(want, got) {
				t.Error("the snapshot has changed")
			}
		}
	}
	if s.Len() != len(want) || k.Counts().Heuristics != (len(ids)+2)/3 {
		t.Errorf("the snapshot says %d; %+v", s.Len(), k.Counts())
	}
	s.Release()
	k.checkInvariants(t)
}

// TestWhatFellOffIsGivenBack: nothing refers to a dropped arena any more.
func TestWhatFellOffIsGivenBack(t *testing.T) {
	k := newRetentionFixture(t, Bootstrap{Interval: time.Second, Retention: time.Minute, Retain: 250})
	k.finish(99, 1)
	k.finish(99, 2)
	k.finish(99, 3)
	var gone []weak.Pointer[arena]
	for _, a := range k.arenas() {
		gone = append(gone, weak.Make(a))
	}
	there := func() (n int) {
		runtime.GC()
		for _, p := range gone {
			if p.Value() != nil {
				n++
			}
		}
		return n
	}
	if n := there(); n != 3 {
		t.Errorf("%d arenas before any has to go", n)
	}
	if k.finish(52, 4); there() != 2 {
		t.Errorf("%d arenas of three, of which the first had to go", there())
	}
	if k.Apply(Entry{Tick: 1000}); there() != 0 {
		t.Errorf("%d arenas have fallen off and are still there", there())
	}
	runtime.KeepAlive(k)
}

// TestRestoreOfOutcomesThatAreOver: an earlier release had not dropped them yet. They are
// dropped with the next step, and too many at once.
func TestRestoreOfOutcomesThatAreOver(t *testing.T) {
	var txs []*Transaction
	for i := range uint64(10) {
		txs = append(txs, &Transaction{ID: testID(i + 1), State: txn.Committed, Seq: i + 1, Ended: survival.Tick(1 + i/5*1000)})
	}
	h := bootstrapped(t).header()
	h.Bootstrap = Bootstrap{Cluster: "c1", Interval: time.Second, Retention: time.Minute, Retain: 10}
	h.Tick, h.Seq = 1001, 10
	restore := func() *Machine {
		m, err := Restore(h, nothing, withoutError(slices.Values(txs)))
		if err == nil {
			err = m.CheckInvariants()
		}
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	m := restore()
	if n := m.retained.ring.Len(); n != 10 {
		t.Errorf("%d are there", n)
	}
	if m.Apply(Entry{Tick: 1002}); m.retained.ring.Len() != 5 {
		t.Errorf("%d are left", m.retained.ring.Len())
	}
	h.Bootstrap.Retain = 5
	if n := restore().retained.ring.Len(); n != 5 {
		t.Errorf("%d are there, where five are enough", n)
	}
	for name, bad := range map[string]*Transaction{
		"twice": {ID: testID(1), State: txn.Committed, Seq: 3}, "as a record as well": {ID: testID(1), State: txn.Active, Seq: 3, Expiry: 2000},
		"from the future": {ID: testID(99), State: txn.Committed, Seq: 3, Ended: 1002},
	} {
		for _, all := range [][]*Transaction{append(slices.Clone(txs), bad), append([]*Transaction{bad}, txs...)} {
			if _, err := Restore(h, nothing, withoutError(slices.Values(all))); err == nil {
				t.Errorf("an outcome that is there %s is restored", name)
			}
		}
	}
}

// TestCheckSeesTheBelt: the check finds each way in which the belt could be wrong.
func TestCheckSeesTheBelt(t *testing.T) {
	for name, damage := range map[string]func(k *retentionFixture, ids []txn.ID){
		"a count":             func(k *retentionFixture, _ []txn.ID) { k.arenas()[0].count++ },
		"a mark":              func(k *retentionFixture, _ []txn.ID) { k.arenas()[0].chunks[0].bytes[3] |= 0x80 },
		"a state":             func(k *retentionFixture, ids []txn.ID) { k.outcome(ids[0])[0] = byte(txn.Committing) },
		"a cause":             func(k *retentionFixture, ids []txn.ID) { k.outcome(ids[0])[1] = byte(txn.CauseTimeout) },
		"another id":          func(k *retentionFixture, _ []txn.ID) { k.arenas()[0].chunks[0].bytes[4] ^= 1 },
		"the time of its end": func(k *retentionFixture, ids []txn.ID) { k.outcome(ids[0])[outcomePrefixSize] = 60 },
		"a record as well":    func(k *retentionFixture, ids []txn.ID) { k.loadRetained(ids[1]); k.loaded = 0 },
		"a record in its place": func(k *retentionFixture, ids []txn.ID) {
			k.loadRetained(ids[1])
			k.loaded = 0
			k.retained.ring.Remove(ids[1])
		},
		"a record from the last command": func(k *retentionFixture, ids []txn.ID) { k.loadRetained(ids[1]) },
		"a record that waits":            func(k *retentionFixture, _ []txn.ID) { k.toRetain = append(k.toRetain, 1) },
		"the turn":                       func(k *retentionFixture, _ []txn.ID) { k.retained.ring.Rotate() },
		"too many":                       func(k *retentionFixture, _ []txn.ID) { k.retained.limit = 1 },
		"the order": func(k *retentionFixture, ids []txn.ID) {
			o, end, _ := k.retained.ring.Get(ids[0])
			o = slices.Clone(o)
			k.retained.ring.Remove(ids[0])
			_ = k.retained.ring.Add(ids[0], o, end)
		},
		"the container": func(k *retentionFixture, ids []txn.ID) {
			o, end, _ := k.retained.ring.Get(ids[1])
			o = slices.Clone(o)
			k.retained.ring.Remove(ids[1])
			_ = k.retained.ring.Add(ids[1], o, end-1)
		},
		"an index that has forgotten": func(k *retentionFixture, ids []txn.ID) {
			o, _, _ := k.retained.ring.Get(ids[0])
			o = slices.Clone(o)
			_ = k.retained.ring.AddNew(ids[0], o, k.retained.ring.Front())
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := newRetentionFixture(t, Bootstrap{Interval: time.Second, Retention: time.Minute, Retain: 1000})
			ids := slices.Concat(k.finish(2, 1), k.finish(2, 2))
			k.checkInvariants(t)
			damage(k, ids)
			if k.CheckInvariants() == nil {
				t.Error("the audit says nothing")
			}
		})
	}
}

func (k *retentionFixture) outcome(id txn.ID) outcome {
	o, _, _ := k.retained.ring.Get(id)
	return o
}
