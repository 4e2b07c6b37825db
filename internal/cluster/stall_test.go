package cluster

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/txmgr/txmgr/internal/rig"
	"github.com/txmgr/txmgr/txn"
)

// stalls are the places at which a goroutine of the leader blocks. ends means that the process has
// to end before another node can lead: the state is locked.
var stalls = []struct {
	step string
	ends bool
}{
	{"machine apply", true},
	{"read", true},
	{"batch", false},
}

// TestStalledLeader: one goroutine of a leader blocks for ever, in the middle of an entry, of a
// read of the state, or of sending entries to raft. raft's heartbeats continue. Another node leads,
// and writes are acknowledged again, within ten seconds without the time in which the machine
// itself stalled. Nothing that was acknowledged is lost.
func TestStalledLeader(t *testing.T) {
	t.Parallel()
	const bound = 10 * time.Second
	b := newTestCluster(t)
	b.form()
	var machine rig.HostStalls
	watching, stop := context.WithCancel(t.Context())
	var watcher sync.WaitGroup
	watcher.Go(func() {
		if err := machine.Watch(watching, b.dir); err != nil {
			t.Error(err)
		}
	})
	defer watcher.Wait()
	defer stop()
	l := b.load(waitTimeout)
	for i, s := range stalls {
		t.Run(s.step, func(t *testing.T) {
			b := b.forSubtest(t)
			victim := b.nodes[i%size]
			file := filepath.Join(b.dir, "halt-"+victim.Name)
			b.armFailpoint(victim, s.step+"@"+file)
			b.must(os.WriteFile(file, nil, 0o600))
			reader, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() { _, _ = victim.m.Get(reader, rig.NewID()) }()
			b.eventually(waitTimeout, "the leader has halted", func(context.Context) error {
				if !strings.Contains(victim.outputTail(64<<10), "failpoint: halted at "+s.step) {
					return errors.New("it goes on")
				}
				return nil
			})
			start := time.Now()
			a, err := l.p.after(t.Context(), start)
			b.must(err)
			stood := machine.During(start, a.ended)
			took := a.ended.Sub(start) - stood
			t.Logf("writes were acknowledged again %v after the leader had halted, and %v in which the machine stood still", took.Round(time.Millisecond), stood.Round(time.Millisecond))
			if took > bound {
				t.Errorf("it took %v, without %v in which the machine stood still; want %v at most", took, stood, bound)
			}
			if leader, _ := b.leader(); leader == victim {
				t.Errorf("%s, which makes no progress, leads", victim.Name)
			}
			b.must(os.Remove(file))
			if s.ends {
				state, err := victim.WaitExit(waitTimeout)
				b.must(err)
				if state.Success() {
					t.Errorf("%s ended with %v, want a failure", victim.Name, state)
				}
				b.must(victim.Start(b.t.Context()))
			}
			if said := victim.outputTail(64 << 10); !strings.Contains(said, "no progress for") {
				t.Errorf("%s did not say why:\n%s", victim.Name, said)
			}
			b.awaitHealthy()
		})
	}
	l.check()
}

// TestHungParticipantIsNoStall: a database hangs while the coordinator calls it to commit. The
// leader keeps its leadership, and serves other calls, for longer than its watchdog waits for
// progress.
func TestHungParticipantIsNoStall(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t)
	b.form()
	m := newMoney(b, transferWorkers)
	l := b.load(waitTimeout)
	leader, _ := b.leader()
	before, err := leader.status(t.Context())
	b.must(err)
	release := m.proxies[inBank].Hang()
	freed := sync.OnceFunc(release)
	defer freed()
	tell := newTransferClients(m, b.dial(waitTimeout), &abandonedTxs{t: t, c: b.m})
	tr := &transfer{id: rig.NewID(), kind: kindPlain, from: 1, to: 51, amount: 1, timeout: time.Minute, manual: true}
	tell.all = append(tell.all, tr)
	var moving sync.WaitGroup
	moving.Go(func() { tell.attempt(tr) })
	b.eventually(waitTimeout, "the coordinator commits at the bank", func(ctx context.Context) error {
		info, err := b.m.Get(ctx, tr.id)
		if err == nil && info.State != txn.Committing {
			err = errors.New(info.State.String())
		}
		return err
	})
	rig.Sleep(t.Context(), 8*time.Second)
	l.awaitCommits()
	after, err := leader.status(t.Context())
	b.must(err)
	if !after.Leader || after.Term != before.Term {
		t.Errorf("while a participant hung, the leader of term %d came to lead: %v, term %d", before.Term, after.Leader, after.Term)
	}
	if said := leader.outputTail(64 << 10); strings.Contains(said, "no progress for") {
		t.Errorf("a participant hung, and the leader took itself for stalled:\n%s", said)
	}
	freed()
	moving.Wait()
	tell.checkEnd(b, tr, "yes")
	l.check()
}
