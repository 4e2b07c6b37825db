package raftfsm

import "github.com/txmgr/txmgr/txn/machine"

// The flags of a branch in a begin or an enlistment. A command in which no branch has any is written in its older form;
// otherwise that form is followed by one byte for each branch.
const (
	flagDecides byte = 1 << iota
	flagRevokes

	allBranchFlags = flagDecides | flagRevokes
)

func hasFlags(b machine.Branch) bool { return b.Decides || b.Revokes }

func branchFlagsOf(b *machine.Branch) (f byte) {
	if b.Decides {
		f |= flagDecides
	}
	if b.Revokes {
		f |= flagRevokes
	}
	return f
}

// branchFlags reads the flags of a branch, and reports whether there are any.
func (r *commandReader) branchFlags(b *machine.Branch) bool {
	f := r.byte()
	if f&^allBranchFlags != 0 {
		r.fail("flags %#x of a branch", f)
	}
	b.Decides, b.Revokes = f&flagDecides != 0, f&flagRevokes != 0
	return f != 0
}

func (r *commandReader) beginFlagged() (c machine.Begin) {
	switch kind := r.byte(); kind {
	case kindBegin:
		c = r.begin()
	case kindBeginInSession:
		c = r.beginInSession()
	case kindBeginMarked:
		c = r.beginMarked()
	default:
		r.fail("flags of a command of kind %d", kind)
	}
	some := false
	for i := range c.Branches {
		some = r.branchFlags(&c.Branches[i]) || some
	}
	if !some {
		r.fail("without a flag, which has an older form") // equal entries have equal bytes
	}
	return c
}

func (r *commandReader) enlist(kind byte) machine.Enlist {
	return machine.Enlist{ID: r.id(), Branch: r.branch(), Legacy: kind == kindEnlist}
}

func (r *commandReader) enlistFlagged() (c machine.Enlist) {
	switch kind := r.byte(); kind {
	case kindEnlist, kindEnlistOnce:
		c = r.enlist(kind)
	default:
		r.fail("flags of a command of kind %d", kind)
	}
	if !r.branchFlags(&c.Branch) {
		r.fail("without a flag, which has an older form")
	}
	return c
}
