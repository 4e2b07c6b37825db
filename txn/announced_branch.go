package txn

import (
	"fmt"
	"slices"
)

// announcedBranch is a branch that was named without a call.
type announcedBranch struct {
	Branch

	enlistment Enlistment // the latest; without a participant as long as only the name was asked for
	opening    bool       // its resource is being opened, or its enlistment not known: it must not be sent yet
	unsent     bool       // the enlistment is to be sent
	sent       bool       // this enlistment, or an earlier one, was sent
}

// enlist names the branch of an enlistment, which is sent when [announcer.opened] is called, or there are others. named is
// false when it has to be enlisted by a call instead, after [announcer.begin].
func (a *announcer) enlist(e Enlistment) (b Branch, named bool, err error) {
	if a == nil {
		return b, false, nil
	}
	if err := e.Check(); err != nil {
		return b, true, Wrap("enlist", a.n.Options.ID, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.shared || a.err != nil {
		return b, false, a.err
	}
	br := a.nameLocked(e.Participant)
	b = br.Branch
	a.enlistedAgain = a.enlistedAgain || br.sent
	br.enlistment, br.opening, br.unsent = e, true, true
	if len(a.branches) > 1 && !a.n.Options.LastDecides {
		a.noDeciderLocked()
		a.hurryLocked()
		a.sendLocked(false)
	}
	return b, true, nil
}

// noDeciderLocked says that no branch will decide: the enlistments need not wait until their resources have been opened.
func (a *announcer) noDeciderLocked() {
	a.revokeLocked()
	for i := range a.branches {
		b := &a.branches[i]
		b.opening = b.opening && b.enlistment.Participant == ""
	}
}

func (a *announcer) indexLocked(participant string) int {
	return slices.IndexFunc(a.branches, func(b announcedBranch) bool { return b.Participant == participant })
}

// nameLocked returns the branch at a participant, which it names if it has no name yet.
func (a *announcer) nameLocked(participant string) *announcedBranch {
	i := a.indexLocked(participant)
	if i < 0 {
		i = len(a.branches)
		id := BranchID(i + 1)
		a.branches = append(a.branches, announcedBranch{opening: true, Branch: Branch{ID: id, Participant: participant, XID: XID(a.n.Cluster, a.n.Options.ID, id)}})
	}
	return &a.branches[i]
}

// opened says that the resource of a branch has been opened, or could not be. onePhase says that it can
// commit its branch in one phase, and prove that afterwards: the branch may then be appointed.
func (a *announcer) opened(participant string, onePhase bool) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	i := a.indexLocked(participant)
	if i < 0 {
		return
	}
	b := &a.branches[i]
	b.opening = false
	switch {
	case b.enlistment.Participant != "":
	case i == len(a.branches)-1:
		a.branches = a.branches[:i] // nothing knows the name that it was given
		return
	default: // its number is given out: it stays without a vote
		b.enlistment, b.unsent = Enlistment{Participant: participant}, true
	}
	a.appointLocked(b.ID, onePhase)
	if len(a.branches) > 1 {
		a.hurryLocked()
	}
	a.sendLocked(!a.begun && len(a.branches) == 1 && a.n.Hints.of(a.n.Options.Name).Load())
}

// sendableLocked reports whether the enlistment of a branch is to be sent now. The branches are sent in the
// order of their names, since the coordinator numbers them as they come.
func (a *announcer) sendableLocked(i int) bool {
	return a.branches[i].unsent && !a.branches[i].opening && (i == 0 || a.branches[i-1].sent)
}

// hasNextLocked reports whether there is something to send.
func (a *announcer) hasNextLocked() bool {
	if a.awaited && (!a.begun || a.toRevokeLocked()) {
		return true
	}
	for i := range a.branches {
		if a.sendableLocked(i) {
			return true
		}
	}
	return false
}

// unsentLocked is an error when a branch is not sent although all was sent that can be: behind a name that was asked for, and
// whose branch was never opened.
func (a *announcer) unsentLocked() error {
	i := slices.IndexFunc(a.branches, func(b announcedBranch) bool { return b.unsent })
	if i < 1 {
		return nil
	}
	return &Error{Op: "enlist", ID: a.n.Options.ID, Err: ErrInvalid, Detail: fmt.Sprintf("%s cannot be enlisted: the branch at %s was named, and is not opened", a.branches[i].Participant, a.branches[i-1].Participant)}
}

// takeLocked takes the enlistments of the next call: all that fit into a begin, or one.
func (a *announcer) takeLocked() (batch []Enlistment) {
	size := 0
	for i := range a.branches {
		if len(batch) > 0 && (a.begun || size >= maxBeginBytes) || len(batch) == MaxBranches {
			break
		}
		if !a.sendableLocked(i) {
			continue
		}
		b := &a.branches[i]
		b.unsent, b.sent = false, true
		size += len(b.enlistment.Payload) + MaxSessionRef
		batch = append(batch, a.appointedLocked(b.ID, b.enlistment))
	}
	if a.toRevokeLocked() && len(batch) == 0 {
		batch = append(batch, a.appointedLocked(a.told, a.branches[a.told-1].enlistment))
	}
	return batch
}

// checkLocked compares the coordinator's answer with the names that were given out. Another
// name is a conflict: the branch works under one that the coordinator does not know.
func (a *announcer) checkLocked(sent int, got []Branch, err error) {
	if err == nil && len(got) != sent {
		err = &Error{Op: "enlist", ID: a.n.Options.ID, Err: ErrConflict, Detail: fmt.Sprintf("the coordinator has answered with %d branches, and was sent %d", len(got), sent)}
	}
	for _, b := range got {
		if err == nil && !slices.ContainsFunc(a.branches, func(own announcedBranch) bool { return own.Branch == b }) {
			err = &Error{Op: "enlist", ID: a.n.Options.ID, Err: ErrConflict, Detail: fmt.Sprintf("the coordinator names the branch at %s %s, which is not the name that it works under: another application has enlisted by the id, or the address leads to another cluster now", b.Participant, b.XID)}
		}
	}
	a.err = err
}
