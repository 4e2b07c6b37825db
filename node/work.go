package node

import (
	"context"
	"fmt"
	"slices"
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

// Undone implements [recovery.Log]. While the state is held nothing is to be driven.
func (n log) Undone(id txn.ID) (recovery.Work, bool) {
	var w recovery.Work
	var expiry, tick survival.Tick
	var settle bool
	n.fsm.View(func(m *machine.Machine) {
		o, known := m.Lookup(id)
		if !known || m.Held() || o.State.Finished() || o.State == txn.Active {
			return
		}
		t, _ := m.Get(id)
		w = recovery.Work{ID: id, State: t.State, Cause: t.Cause}
		expiry, tick = t.Expiry, m.Tick()
		settle = t.Delegated() && t.EndedByHand() // its session has said that it will not end it
		for k := range t.Branches {
			b := &t.Branches[k]
			if b.State.Finished() || t.State == txn.Preparing && b.Vote != 0 && !t.Delegated() {
				continue
			}
			w.Branches = append(w.Branches, recovery.Branch{Participant: b.Participant, Branch: work(m, &t, txn.BranchID(k+1))})
		}
	})
	if w.State == txn.Preparing && expiry > tick && !settle {
		w.TimeLeft = n.clock.until(expiry)
	}
	return w, len(w.Branches) > 0
}

// work is a branch as its participant needs it.
func work(m *machine.Machine, t *machine.Transaction, id txn.BranchID) participant.Branch {
	b := &t.Branches[id-1]
	boot, _ := m.Bootstrap()
	return participant.Branch{
		TX: t.ID, ID: id, XID: txn.XID(boot.Cluster, t.ID, id), Vote: b.Vote, Payload: b.Payload,
		Session: b.Session, OwnPhaseTwo: t.OwnPhaseTwo && !asked(m, b.Participant),
	}
}

// asked reports whether the coordinator asks the participant for votes, so that it
// also finishes the branches there.
func asked(m *machine.Machine, name string) bool {
	p, _ := m.Participant(name)
	return p.CoordinatorPrepares
}

// handOff leaves transactions to their applications for the grace, but for those of
// which something has to be done before it is over. In the ordinary case, where no
// participant is the coordinator's to finish and nothing is delegated, a look at the
// states is all that it costs.
func (n *Node) handOff(r *recovery.Recovery, ids []txn.ID) {
	var pressing []txn.ID
	patient := make([]txn.ID, 0, len(ids))
	soon := n.clock.within(r.Grace())
	n.fsm.View(func(m *machine.Machine) {
		mixed := slices.ContainsFunc(m.Participants(), func(p machine.Registration) bool {
			return p.CoordinatorPrepares && m.Open(p.Name) > 0
		})
		for _, id := range ids {
			if presses(m, id, mixed, soon) {
				pressing = append(pressing, id)
			} else {
				patient = append(patient, id)
			}
		}
	})
	r.Add(pressing...)
	r.Handoff(patient...)
}

// presses reports whether recovery has to look at a transaction within the grace:
// because the coordinator has a branch to finish, or a delegated decision is to be
// settled. mixed says that the former is possible at all, and soon is the last tick within the grace.
func presses(m *machine.Machine, id txn.ID, mixed bool, soon survival.Tick) bool {
	o, _ := m.Lookup(id)
	if !mixed && o.State != txn.Preparing {
		return false
	}
	t, _ := m.Get(id)
	if t.Delegated() {
		return t.Expiry <= soon
	}
	return slices.ContainsFunc(t.Branches, func(b machine.TransactionBranch) bool {
		return !b.State.Finished() && asked(m, b.Participant)
	})
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
			n.logger.Warn("the log refused a finding of recovery", "tx", id, "finding", fmt.Sprintf("%T", c), "code", res.Code)
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
		case r.Vote == txn.VoteEndedByHand:
			commands = append(commands, machine.EndedByHand{ID: id, Branch: r.Branch, Reason: n.reasonOf(id, r)})
		case r.Vote != 0:
			votes.Votes = append(votes.Votes, txn.BranchVote{Branch: r.Branch, Vote: r.Vote})
			if r.Vote == txn.VoteNo && votes.Reason == "" { // the first one decides
				votes.Reason = n.reasonOf(id, r)
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

// reasonOf is why a branch is against it, with the name of its participant.
func (n log) reasonOf(id txn.ID, r recovery.Report) string {
	return clip(strings.TrimSuffix(n.participantOf(id, r.Branch)+": "+r.Detail, ": "))
}

// participantOf names the participant of a branch, for people.
func (n log) participantOf(id txn.ID, b txn.BranchID) string {
	t, _ := n.stored(id)
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
func (n log) Lookup(ctx context.Context, keys []recovery.Key) ([]recovery.Known, error) {
	if err := n.readable(ctx); err != nil {
		return nil, err
	}
	known := make([]recovery.Known, len(keys))
	n.fsm.View(func(m *machine.Machine) {
		memory := memory(m)
		for i, k := range keys {
			t, ok := m.Get(k.TX)
			if !ok {
				known[i].Memory = memory
				if made := k.TX.Made(); m.Lost(made.UnixMilli(), recovery.ClockSlack.Milliseconds()) {
					// As if everything since its begin were remembered: then it
					// has surely been lost.
					known[i].Memory = max(memory, time.Since(made).Round(time.Minute)+recovery.ClockSlack)
				}
				continue
			}
			known[i].State, known[i].Hazard = t.State, t.Hazard
			if k.Branch >= 1 && int(k.Branch) <= len(t.Branches) {
				known[i].Branch = work(m, &t, k.Branch)
				b := &t.Branches[k.Branch-1]
				known[i].Unfinished = (t.State.Decided() || t.Delegated()) && !b.State.Finished()
			}
		}
	})
	return known, nil
}

// memory is how long every outcome is remembered at least: since the horizon, and not
// for the tick in which that is, since an end may have been late in its tick. It is never
// zero, which would say that nothing is known.
func memory(m *machine.Machine) time.Duration {
	boot, _ := m.Bootstrap()
	if boot.Interval <= 0 {
		return 0
	}
	retention := max(survival.Tick(boot.Retention/boot.Interval), 1) - 1 // also of a young cluster, which has forgotten nothing
	if horizon := m.Horizon(); horizon > 0 {
		retention = min(retention, m.Tick()-horizon)
	}
	return max(1, time.Duration(retention)*boot.Interval)
}

// Participant implements [recovery.Log].
func (n log) Participant(ctx context.Context, name string) (participant.Participant, error) {
	return n.members.get(ctx, name)
}

// Held implements [recovery.Log].
func (n log) Held() bool { return n.onHold() }

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
