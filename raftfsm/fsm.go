package raftfsm

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/internal/failpoint"
	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn/machine"
)

// Config holds the callbacks of an [FSM]. The zero Config is valid: there are none. The functions
// are called one at a time, by raft's goroutine, without any lock of the FSM: they may call
// [FSM.View], and they block the log while they run.
type Config struct {
	// OnApply is called after every entry, on the leader and on the followers, before the proposer
	// gets its answer: with the entry's position, its effects, which are shared with the proposer
	// and must not be changed, and the machine's tick after it. Defaults to nothing.
	OnApply func(at Position, e *machine.Effects, tick survival.Tick)
	// OnRestore is called when the whole state was replaced by that of a snapshot, with the
	// machine's tick: at the start, and on a follower that was too far behind. Everything derived
	// from the state before is void. Defaults to nothing.
	OnRestore func(tick survival.Tick)
	// OnFailure is called once, when an entry cannot be applied. The FSM cannot be used any more,
	// and neither can the raft node: the process must end. Defaults to nothing.
	OnFailure func(error)
}

// Position is the place of an entry in the log: its index, and the term of the leader
// that wrote it.
type Position struct{ Index, Term uint64 }

// Applied is raft's answer to the proposer of an entry.
type Applied struct {
	Index, Term uint64
	Effects     machine.Effects // shared with OnApply: not to be changed
}

// FSM is a [machine.Machine] behind the interface of raft. Make one with [New].
type FSM struct {
	config    Config
	steps     atomic.Uint64 // odd while an entry is being applied, a snapshot is being taken, or one replaces the state
	restoring atomic.Bool   // a snapshot is being read

	mu sync.RWMutex // guards machine and failure
	// machine is changed only by Apply, Snapshot and Restore, all of them called by raft's single
	// goroutine. The lock is for the readers.
	machine *machine.Machine
	failure error // of an entry; final
}

var _ raft.FSM = (*FSM)(nil)

// New returns an FSM in the state before the first entry.
func New(c Config) *FSM { return &FSM{config: c, machine: machine.New()} }

// View calls fn with the machine, which it may read but not retain: no entry is applied meanwhile,
// so fn must be quick. It may run concurrently with other readers, so fn must take neither a
// snapshot of the machine nor its hash.
func (f *FSM) View(fn func(*machine.Machine)) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	fn(f.machine)
}

// Steps returns a number that is odd while an entry is being applied, a snapshot is being taken, or
// one replaces the state, and changes with each beginning and end of that. If it stays odd, the log
// makes no progress.
func (f *FSM) Steps() uint64 { return f.steps.Load() }

// Restoring reports whether a snapshot is being read, which may take long. Replacing the state by
// it is a step: see [FSM.Steps].
func (f *FSM) Restoring() bool { return f.restoring.Load() }

// Readable reports whether [FSM.View] would begin at this moment. It is false while an entry
// changes the machine, and permanently when a View does not end and an entry waits for it.
func (f *FSM) Readable() bool {
	if !f.mu.TryRLock() {
		return false
	}
	f.mu.RUnlock()
	return true
}

func (f *FSM) step() { f.steps.Add(1) }

// Apply applies one committed entry and returns an [*Applied]. For an entry that cannot be decoded
// it returns an error, which wraps [ErrCorrupt], [ErrUnknownVersion] or [ErrUnknownKind] and is
// passed to OnFailure; the state stays as it was before that entry, permanently: every later call
// returns the same error.
func (f *FSM) Apply(l *raft.Log) any {
	f.step()
	defer f.step()
	if err := f.failed(); err != nil {
		return err
	}
	if termMismatch(l) {
		return fmt.Errorf("log entry %d: %w", l.Index, ErrTermMismatch)
	}
	e, err := DecodeEntry(l.Data)
	if err != nil {
		return f.fail(fmt.Errorf("apply: log entry %d of term %d: %w", l.Index, l.Term, err))
	}
	e.Index = l.Index
	a := &Applied{Index: l.Index, Term: l.Term}
	f.mu.Lock()
	failpoint.Hit("machine apply")
	a.Effects = f.machine.Apply(e)
	tick := f.machine.Tick()
	f.mu.Unlock()
	if f.config.OnApply != nil {
		f.config.OnApply(Position{l.Index, l.Term}, &a.Effects, tick)
	}
	return a
}

// Snapshot takes the current state, within microseconds. The result's Persist writes it in the
// background. An FSM that has failed returns none: its state has a gap.
func (f *FSM) Snapshot() (raft.FSMSnapshot, error) {
	f.step()
	defer f.step()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failure != nil {
		return nil, fmt.Errorf("snapshot: %w", f.failure)
	}
	return &snapshot{f.machine.Snapshot()}, nil
}

// Restore replaces the state by that of a snapshot. On an error the state stays as it was; the error wraps [ErrCorrupt],
// [ErrUnknownVersion], [ErrUnknownKind] or [ErrOtherGroup] when the snapshot's bytes are at fault.
func (f *FSM) Restore(rc io.ReadCloser) error {
	defer rc.Close() // raft ignores its error as well: all bytes were read and checked
	if err := f.failed(); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	m, err := f.read(rc)
	if err != nil {
		return err
	}
	f.step()
	defer f.step()
	f.mu.Lock()
	f.machine = m
	f.mu.Unlock()
	if f.config.OnRestore != nil {
		f.config.OnRestore(m.Tick())
	}
	return nil
}

// read reads a snapshot into a new machine, without changing the state.
func (f *FSM) read(r io.Reader) (*machine.Machine, error) {
	f.restoring.Store(true)
	defer f.restoring.Store(false)
	return readSnapshot(r)
}

func (f *FSM) failed() error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.failure
}

func (f *FSM) fail(err error) error {
	f.mu.Lock()
	f.failure = err
	f.mu.Unlock()
	if f.config.OnFailure != nil {
		f.config.OnFailure(err)
	}
	return err
}
