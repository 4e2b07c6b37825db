package node

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/txmgr/txmgr/internal/failpoint"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/recovery"
	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// log is the coordinator as recovery sees it.
type log struct{ *Node }

var _ recovery.Log = log{}

// Undone implements [recovery.Log].
func (n log) Undone(id txn.ID) (recovery.Work, bool) {
	var t machine.Transaction
	var ok bool
	var tick survival.Tick
	n.fsm.View(func(m *machine.Machine) {
		if o, known := m.Lookup(id); known && !o.State.Finished() && o.State != txn.Active {
			t, ok = m.Get(id)
			tick = m.Tick()
		}
	})
	if !ok {
		return recovery.Work{}, false
	}
	w := recovery.Work{ID: id, State: t.State, Cause: t.Cause, OwnPhaseTwo: t.OwnPhaseTwo && t.State == txn.Committing}
	if t.State == txn.Preparing && t.Expiry > tick {
		w.TimeLeft = n.clock.until(t.Expiry)
	}
	cluster := n.cluster()
	for k := range t.Branches {
		b := &t.Branches[k]
		if b.State.Finished() || t.State == txn.Preparing && b.Vote != 0 && b.Vote != txn.VoteDelegated {
			continue
		}
		w.Branches = append(w.Branches, recovery.Branch{Participant: b.Participant, Branch: work(cluster, &t, txn.BranchID(k+1))})
	}
	return w, len(w.Branches) > 0
}

// work is a branch as its participant needs it.
func work(cluster string, t *machine.Transaction, id txn.BranchID) participant.Branch {
	b := &t.Branches[id-1]
	return participant.Branch{
		TX: t.ID, ID: id, XID: txn.XID(cluster, t.ID, id), Vote: b.Vote, Payload: b.Payload,
		Session: b.Session, OwnPhaseTwo: t.OwnPhaseTwo,
	}
}

// Report implements [recovery.Log]: acknowledgements and votes of one
// transaction travel together.
func (n log) Report(ctx context.Context, id txn.ID, rs []recovery.Report) error {
	failpoint.Hit("finding received")
	for _, c := range n.findings(id, rs) {
		res, err := n.batcher.propose(ctx, c)
		failpoint.Hit("finding applied")
		if err != nil {
			return err
		}
		if res.Code != machine.OK && res.Code != machine.Decided {
			// The log knows better: somebody else has reported otherwise. The
			// work that is left, if any, is asked for again.
			n.logger.Warn("the log refused a finding of recovery", "transaction", id, "finding", fmt.Sprintf("%T", c), "code", res.Code)
		}
	}
	return nil
}

// findings are the commands that make reports durable.
func (n log) findings(id txn.ID, rs []recovery.Report) (commands []machine.Command) {
	var acks []txn.Ack
	votes := machine.Vote{ID: id}
	for _, r := range rs {
		switch {
		case r.State != 0:
			acks = append(acks, txn.Ack{Branch: r.Branch, State: r.State})
		case r.Vote != 0:
			votes.Votes = append(votes.Votes, txn.BranchVote{Branch: r.Branch, Vote: r.Vote})
			if r.Vote == txn.VoteNo && votes.Reason == "" { // the first one decides
				votes.Reason = clip(strings.TrimSuffix(n.participantOf(id, r.Branch)+": "+r.Detail, ": "))
			}
		default:
			commands = append(commands, machine.Hazard{ID: id, Branch: r.Branch, Hazard: r.Hazard, Detail: clip(r.Detail)})
		}
	}
	if len(acks) > 0 {
		commands = append(commands, machine.Done{ID: id, Acks: acks})
	}
	if len(votes.Votes) > 0 {
		commands = append(commands, votes)
	}
	return commands
}

// participantOf names the participant of a branch, for people.
func (n log) participantOf(id txn.ID, b txn.BranchID) string {
	var t machine.Transaction
	n.fsm.View(func(m *machine.Machine) { t, _ = m.Get(id) })
	if b < 1 || int(b) > len(t.Branches) {
		return b.String()
	}
	return t.Branches[b-1].Participant
}

// clip keeps a detail within what the log accepts.
func clip(s string) string { return clipTo(s, txn.MaxReason) }

// clipTo cuts a text for people, at the end of a letter.
func clipTo(s string, bytes int) string {
	if len(s) <= bytes {
		return s
	}
	return strings.ToValidUTF8(s[:bytes], "")
}

// Lookup implements [recovery.Log]. Whoever was told of an entry before the call
// was told by this leader, after it had applied the entry, or by an earlier one;
// and this one began to lead by applying everything of theirs. So it is enough
// that it still leads.
func (n log) Lookup(_ context.Context, keys []recovery.Key) ([]recovery.Known, error) {
	if err := n.Ready(); err != nil {
		return nil, err
	}
	if err := n.raft.VerifyLeader().Error(); err != nil {
		return nil, fmt.Errorf("%w: %w", txn.ErrUnavailable, err)
	}
	known := make([]recovery.Known, len(keys))
	cluster := n.cluster()
	n.fsm.View(func(m *machine.Machine) {
		memory := memory(m)
		for i, k := range keys {
			t, ok := m.Get(k.TX)
			if !ok {
				known[i].Memory = memory
				continue
			}
			known[i].State, known[i].Hazard = t.State, t.Hazard
			if k.Branch >= 1 && int(k.Branch) <= len(t.Branches) {
				known[i].Branch = work(cluster, &t, k.Branch)
				b := &t.Branches[k.Branch-1]
				known[i].Unfinished = (t.State.Decided() || b.Vote == txn.VoteDelegated) && !b.State.Finished()
			}
		}
	})
	return known, nil
}

// memory is how long every outcome is remembered at least; zero when outcomes have
// been dropped before their time, because there were too many.
func memory(m *machine.Machine) time.Duration {
	boot, _ := m.Bootstrap()
	if boot.Interval <= 0 || uint64(m.Counts().Finished) >= boot.Retain {
		return 0
	}
	return boot.Retention / boot.Interval * boot.Interval
}

// Participant implements [recovery.Log].
func (n log) Participant(ctx context.Context, name string) (participant.Participant, error) {
	return n.members.get(ctx, name)
}

// Participants implements [recovery.Log].
func (n log) Participants() []string {
	var names []string
	n.fsm.View(func(m *machine.Machine) {
		for _, r := range m.Participants() {
			if !r.Removed {
				names = append(names, r.Name)
			}
		}
	})
	return names
}
