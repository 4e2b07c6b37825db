package raftfsm

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/txmgr/txmgr/internal/textutil"
	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// The kinds of commands in the log. Never renumbered; a new kind gets the next number, and so does
// a known one whose body must change.
const (
	kindBootstrap byte = iota + 1
	kindBegin
	kindEnlist
	kindCommit
	kindRollback
	kindExtend
	kindReportCompletion
	kindReportHeuristicLegacy
	kindForget
	kindAddParticipant
	kindRemoveParticipant
	kindVote
	kindDelegate
	kindResolve
	kindForgetBy
	kindReportHeuristic
	kindResolveUndecided
	kindSetMember
	kindRemoveMember
	kindAddToken
	kindRemoveToken
	kindResumeRecovery
	kindBeginInSession
	kindOpenSession
	kindCloseSession
	kindExpireSessions
	kindBeginMarked
	kindEnlistOnce
	kindRegisterParticipant
	kindUnregisterParticipant
	kindEndedByApplication
	kindAddTokenWithReason
	kindRecordAction
	kindBeginFlagged
	kindEnlistFlagged
	kindResolveDecides

	newestKind = kindResolveDecides
)

// The least number of bytes of one element, against which counts are checked. A label is two empty
// strings, and so on.
const (
	minCommand = 2
	minLabel   = 2
	minBranch  = 3
	minVote    = 2
	minSetting = 2
	sizeID     = 16
)

// AppendCommand appends the encoded command to dst and returns the extended buffer. Any number of
// encoded commands may be appended to each other: each determines its own end.
//
// Everything that c can hold can be encoded, and decoded again: the machine refuses commands, not
// the codec. Only c itself must be one of the command types of package machine, by value; anything
// else is a bug of the caller, and panics before it can reach the log.
func AppendCommand(dst []byte, c machine.Command) []byte {
	switch c := c.(type) {
	case machine.Bootstrap:
		return appendBootstrap(append(dst, kindBootstrap), &c)
	case machine.Begin:
		if slices.ContainsFunc(c.Branches, hasFlags) {
			dst = appendAnyBegin(append(dst, kindBeginFlagged), &c)
			for i := range c.Branches {
				dst = append(dst, branchFlagsOf(&c.Branches[i]))
			}
			return dst
		}
		return appendAnyBegin(dst, &c)
	case machine.Enlist:
		if hasFlags(c.Branch) {
			return append(appendEnlist(append(dst, kindEnlistFlagged), &c), branchFlagsOf(&c.Branch))
		}
		return appendEnlist(dst, &c)
	case machine.Commit:
		return appendCommit(append(dst, kindCommit), &c)
	case machine.Vote:
		return appendVote(append(dst, kindVote), &c)
	case machine.EndedByApplication:
		dst = append(append(dst, kindEndedByApplication), c.ID[:]...)
		return appendString(binary.AppendUvarint(dst, uint64(c.Branch)), c.Reason)
	case machine.Delegate:
		dst = append(append(dst, kindDelegate), c.ID[:]...)
		return binary.AppendUvarint(dst, uint64(c.Branch))
	case machine.Resolve:
		kind := kindResolve
		switch {
		case c.Decides:
			kind = kindResolveDecides
		case c.Undecided:
			kind = kindResolveUndecided
		}
		return appendResolve(append(dst, kind), &c)
	case machine.Rollback:
		dst = append(append(dst, kindRollback), c.ID[:]...)
		return appendString(append(dst, byte(c.Cause)), c.Reason)
	case machine.Extend:
		dst = append(append(dst, kindExtend), c.ID[:]...)
		dst = appendDuration(dst, c.Timeout)
		dst = binary.AppendUvarint(dst, c.Survival)
		return binary.AppendUvarint(dst, uint64(c.Expiry))
	case machine.ReportCompletion:
		return appendReportCompletion(append(dst, kindReportCompletion), &c)
	case machine.ReportHeuristic:
		kind := kindReportHeuristic
		if c.Legacy {
			kind = kindReportHeuristicLegacy
		}
		dst = append(append(dst, kind), c.ID[:]...)
		dst = binary.AppendUvarint(dst, uint64(c.Branch))
		return appendString(append(dst, byte(c.Heuristic)), c.Detail)
	case machine.Forget:
		return appendForget(dst, &c)
	case machine.AddParticipant:
		return appendParticipant(append(dst, kindAddParticipant), &c.Participant)
	case machine.RemoveParticipant:
		return appendString(append(dst, kindRemoveParticipant), c.Name)
	case machine.RegisterParticipant:
		dst = appendParticipant(append(dst, kindRegisterParticipant), &c.Participant)
		return appendString(appendString(dst, c.By), c.Reason)
	case machine.UnregisterParticipant:
		dst = appendString(append(dst, kindUnregisterParticipant), c.Name)
		return appendString(appendString(dst, c.By), c.Reason)
	case machine.SetMember:
		return appendMember(append(dst, kindSetMember), &c.Member)
	case machine.RemoveMember:
		dst = appendString(append(dst, kindRemoveMember), c.Node)
		return appendString(appendString(dst, c.By), c.Reason)
	case machine.AddToken:
		return appendAddToken(dst, &c)
	case machine.RemoveToken:
		dst = appendString(append(dst, kindRemoveToken), c.ID)
		return appendString(appendString(dst, c.By), c.Reason)
	case machine.RecordAction:
		dst = appendString(append(dst, kindRecordAction, byte(c.Action)), c.Subject)
		return appendString(appendString(dst, c.By), c.Reason)
	case machine.ResumeRecovery:
		return appendString(appendString(append(dst, kindResumeRecovery), c.By), c.Reason)
	case machine.OpenSession:
		dst = append(append(dst, kindOpenSession), c.ID[:]...)
		return appendDuration(appendString(dst, c.Name), c.TTL)
	case machine.CloseSession:
		return append(append(dst, kindCloseSession), c.ID[:]...)
	case machine.ExpireSessions:
		dst = binary.AppendUvarint(append(dst, kindExpireSessions), uint64(len(c.IDs)))
		for i := range c.IDs {
			dst = append(dst, c.IDs[i][:]...)
		}
		return dst
	}
	panic("raftfsm: AppendCommand: not a command of package machine, by value")
}

// appendOptionalID writes a flag, followed by the id unless it is zero.
func appendOptionalID[T ~[16]byte](dst []byte, id T) []byte {
	if id == (T{}) {
		return append(dst, 0)
	}
	return append(append(dst, 1), id[:]...)
}

// appendAnyBegin writes the oldest form that holds all but the flags of the branches.
func appendAnyBegin(dst []byte, c *machine.Begin) []byte {
	switch {
	case !c.Mark.IsZero():
		dst = binary.AppendUvarint(append(dst, kindBeginMarked), c.Mark.Epoch)
		dst = appendOptionalID(binary.AppendUvarint(dst, c.Mark.Tick), c.Session)
		return appendBegin(dst, c)
	case c.Session.IsZero():
		return appendBegin(append(dst, kindBegin), c)
	}
	return appendBegin(append(append(dst, kindBeginInSession), c.Session[:]...), c)
}

func appendEnlist(dst []byte, c *machine.Enlist) []byte {
	kind := kindEnlistOnce
	if c.Legacy {
		kind = kindEnlist
	}
	return appendBranch(append(append(dst, kind), c.ID[:]...), &c.Branch)
}

func appendBegin(dst []byte, c *machine.Begin) []byte {
	dst = append(dst, c.ID[:]...)
	dst = appendString(dst, c.Name)
	dst = appendDuration(dst, c.Timeout)
	dst = binary.AppendUvarint(dst, c.Survival)
	dst = binary.AppendUvarint(dst, uint64(c.Expiry))
	dst = appendLabels(dst, c.Labels)
	dst = binary.AppendUvarint(dst, uint64(len(c.Branches)))
	for i := range c.Branches {
		dst = appendBranch(dst, &c.Branches[i])
	}
	return dst
}

func appendCommit(dst []byte, c *machine.Commit) []byte {
	dst = appendVotes(append(dst, c.ID[:]...), c.Votes)
	return appendFlag(dst, c.ClientCompletes)
}

func appendVote(dst []byte, c *machine.Vote) []byte {
	dst = appendVotes(append(dst, c.ID[:]...), c.Votes)
	return appendString(appendFlag(dst, c.ClientCompletes), c.Reason)
}

func appendVotes(dst []byte, votes []txn.BranchVote) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(votes)))
	for _, v := range votes {
		dst = append(binary.AppendUvarint(dst, uint64(v.Branch)), byte(v.Vote))
	}
	return dst
}

func appendResolve(dst []byte, c *machine.Resolve) []byte {
	dst = append(dst, c.ID[:]...)
	dst = append(binary.AppendUvarint(dst, uint64(c.Branch)), byte(c.Outcome))
	return appendString(appendString(dst, c.By), c.Reason)
}

// appendForget writes the older form when no operator is named.
func appendForget(dst []byte, c *machine.Forget) []byte {
	if c.By == "" {
		dst = append(append(dst, kindForget), c.ID[:]...)
	} else {
		dst = append(append(dst, kindForgetBy), c.ID[:]...)
		dst = appendString(dst, c.By)
	}
	return appendString(dst, c.Reason)
}

func appendReportCompletion(dst []byte, c *machine.ReportCompletion) []byte {
	dst = append(dst, c.ID[:]...)
	dst = binary.AppendUvarint(dst, uint64(len(c.Reports)))
	for _, a := range c.Reports {
		dst = append(binary.AppendUvarint(dst, uint64(a.Branch)), byte(a.State))
	}
	return dst
}

// appendAddToken writes the older form when no reason is given.
func appendAddToken(dst []byte, c *machine.AddToken) []byte {
	kind := kindAddToken
	if c.Reason != "" {
		kind = kindAddTokenWithReason
	}
	dst = append(appendString(appendString(append(dst, kind), c.ID), c.Name), byte(c.Role))
	dst = binary.AppendUvarint(append(dst, c.Hash[:]...), uint64(c.Rate))
	dst = appendString(binary.AppendVarint(dst, c.Expires), c.By)
	if kind == kindAddTokenWithReason {
		dst = appendString(dst, c.Reason)
	}
	return dst
}

// commandReader reads the commands of one entry. Their small slices are cut from a few larger ones.
type commandReader struct {
	reader
	labels   []machine.Label
	branches []machine.Branch
	votes    []txn.BranchVote
	reports  []txn.CompletionReport
}

func (r *commandReader) command() machine.Command {
	switch kind := r.byte(); kind {
	case kindBootstrap:
		return r.bootstrap()
	case kindBegin:
		return r.begin()
	case kindEnlist, kindEnlistOnce:
		return r.enlist(kind)
	case kindBeginFlagged:
		return r.beginFlagged()
	case kindEnlistFlagged:
		return r.enlistFlagged()
	case kindCommit:
		return machine.Commit{ID: r.id(), Votes: r.someVotes(), ClientCompletes: r.flag()}
	case kindRollback:
		return machine.Rollback{ID: r.id(), Cause: txn.Cause(r.byte()), Reason: r.name()}
	case kindExtend:
		return machine.Extend{ID: r.id(), Timeout: r.duration(), Survival: r.uvarint(), Expiry: survival.Tick(r.uvarint())}
	case kindReportCompletion:
		return machine.ReportCompletion{ID: r.id(), Reports: r.someReports()}
	case kindReportHeuristicLegacy, kindReportHeuristic:
		return machine.ReportHeuristic{
			ID: r.id(), Branch: txn.BranchID(r.uint32()), Heuristic: txn.Heuristic(r.byte()), Detail: r.string(), Legacy: kind == kindReportHeuristicLegacy,
		}
	case kindForget:
		return machine.Forget{ID: r.id(), Reason: r.name()}
	case kindAddParticipant:
		return machine.AddParticipant{Participant: r.participant()}
	case kindRemoveParticipant:
		return machine.RemoveParticipant{Name: r.name()}
	case kindRegisterParticipant:
		return machine.RegisterParticipant{Participant: r.participant(), By: r.name(), Reason: r.name()}
	case kindUnregisterParticipant:
		return machine.UnregisterParticipant{Name: r.name(), By: r.name(), Reason: r.name()}
	case kindVote:
		return machine.Vote{ID: r.id(), Votes: r.someVotes(), ClientCompletes: r.flag(), Reason: r.string()}
	case kindEndedByApplication:
		return machine.EndedByApplication{ID: r.id(), Branch: txn.BranchID(r.uint32()), Reason: r.string()}
	case kindDelegate:
		return machine.Delegate{ID: r.id(), Branch: txn.BranchID(r.uint32())}
	case kindResolve, kindResolveUndecided, kindResolveDecides:
		return machine.Resolve{
			ID: r.id(), Branch: txn.BranchID(r.uint32()), Outcome: txn.BranchState(r.byte()), By: r.name(), Reason: r.name(),
			Undecided: kind == kindResolveUndecided, Decides: kind == kindResolveDecides,
		}
	case kindForgetBy:
		return r.forgetBy()
	case kindSetMember:
		return machine.SetMember{Member: r.member()}
	case kindRemoveMember:
		return machine.RemoveMember{Node: r.name(), By: r.name(), Reason: r.name()}
	case kindAddToken:
		return r.addToken()
	case kindAddTokenWithReason:
		return r.addTokenWithReason()
	case kindRemoveToken:
		return machine.RemoveToken{ID: r.name(), By: r.name(), Reason: r.name()}
	case kindRecordAction:
		return machine.RecordAction{Action: machine.AuditAction(r.byte()), Subject: r.name(), By: r.name(), Reason: r.name()}
	case kindResumeRecovery:
		return machine.ResumeRecovery{By: r.name(), Reason: r.name()}
	case kindBeginInSession:
		return r.beginInSession()
	case kindBeginMarked:
		return r.beginMarked()
	case kindOpenSession:
		return machine.OpenSession{ID: r.id(), Name: r.string(), TTL: r.duration()}
	case kindCloseSession:
		return machine.CloseSession{ID: r.id()}
	case kindExpireSessions:
		return r.expireSessions()
	case 0:
		r.fail("a command of kind 0")
	default:
		r.failUnknown("command", kind, newestKind)
	}
	return nil
}

func (r *commandReader) forgetBy() machine.Forget {
	c := machine.Forget{ID: r.id(), By: r.name(), Reason: r.name()}
	if c.By == "" {
		r.fail("no operator: must be encoded in the older form") // equal entries have equal bytes
	}
	return c
}

func (r *commandReader) addToken() machine.AddToken {
	return machine.AddToken{
		ID: r.name(), Name: r.name(), Role: admin.Role(r.byte()), Hash: r.hash(), Rate: r.uint32(), Expires: r.number(), By: r.name(),
	}
}

func (r *commandReader) addTokenWithReason() machine.AddToken {
	c := r.addToken()
	if c.Reason = r.name(); c.Reason == "" {
		r.fail("no reason: must be encoded in the older form") // equal entries have equal bytes
	}
	return c
}

// failUnknown records the error for a kind that is not known here.
func (r *reader) failUnknown(what string, kind, newest byte) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s of kind %d, the newest known here is %d: this node is older than what it reads; upgrade it", ErrUnknownKind, what, kind, newest)
		r.at = len(r.data)
	}
}

func (r *commandReader) begin() machine.Begin {
	return machine.Begin{
		ID:       r.id(),
		Name:     r.string(),
		Timeout:  r.duration(),
		Survival: r.uvarint(),
		Expiry:   survival.Tick(r.uvarint()),
		Labels:   r.someLabels(),
		Branches: r.someBranches(),
	}
}

func (r *commandReader) beginInSession() machine.Begin {
	session := txn.SessionID(r.id())
	if session.IsZero() {
		r.fail("in no session, which has an older form") // equal entries have equal bytes
	}
	c := r.begin()
	c.Session = session
	return c
}

func (r *commandReader) beginMarked() machine.Begin {
	mark := txn.Mark{Epoch: r.uvarint(), Tick: r.uvarint()}
	if mark.IsZero() {
		r.fail("without a mark, which has an older form")
	}
	var session txn.SessionID
	if r.flag() {
		if session = txn.SessionID(r.id()); session.IsZero() {
			r.fail("in a session without an id")
		}
	}
	c := r.begin()
	c.Mark, c.Session = mark, session
	return c
}

func (r *commandReader) expireSessions() (c machine.ExpireSessions) {
	if n := r.count(sizeID); n > 0 {
		c.IDs = make([]txn.SessionID, n)
		for i := range c.IDs {
			c.IDs[i] = r.id()
		}
	}
	return c
}

func (r *commandReader) someLabels() []machine.Label {
	ls := carve(&r.labels, r.count(minLabel))
	for i := range ls {
		ls[i] = machine.Label{Key: r.string(), Value: r.string()}
	}
	return ls
}

func (r *commandReader) someBranches() []machine.Branch {
	bs := carve(&r.branches, r.count(minBranch))
	for i := range bs {
		bs[i] = r.branch()
	}
	return bs
}

func (r *commandReader) someVotes() []txn.BranchVote {
	vs := carve(&r.votes, r.count(minVote))
	for i := range vs {
		vs[i] = txn.BranchVote{Branch: txn.BranchID(r.uint32()), Vote: txn.Vote(r.byte())}
	}
	return vs
}

func (r *commandReader) someReports() []txn.CompletionReport {
	as := carve(&r.reports, r.count(minVote))
	for i := range as {
		as[i] = txn.CompletionReport{Branch: txn.BranchID(r.uint32()), State: txn.BranchState(r.byte())}
	}
	return as
}

func (r *reader) branch() machine.Branch {
	return machine.Branch{Participant: r.string(), Payload: r.bytes(), SessionRef: r.string()}
}

func (r *reader) bootstrap() machine.Bootstrap {
	return machine.Bootstrap{Cluster: r.name(), Interval: r.duration(), Retention: r.duration(), Retain: r.uvarint()}
}

// name reads a string that the machine retains: it is copied, so that it does not keep the rest of
// the entry in memory.
func (r *reader) name() string { return strings.Clone(r.string()) }

func (r *reader) participant() admin.Participant {
	p := admin.Participant{Name: r.name(), Kind: r.name()}
	if n := r.count(minSetting); n > 0 {
		p.Settings = make(map[string]string, min(n, txn.MaxSettings)) // a map costs many times its bytes, so it grows as they are read
		last := ""
		for i := range n {
			k := r.name()
			if i > 0 && k <= last {
				r.fail("setting %q stands behind %q", textutil.Excerpt(k, 64), textutil.Excerpt(last, 64))
				break
			}
			p.Settings[k], last = r.name(), k
		}
	}
	p.CoordinatorPrepares = r.flag()
	return p
}

// carve cuts n zero elements off the rest of a slab, which it replaces by a larger one when they do
// not fit. The result is nil when n is 0, and appending to it does not overwrite what follows it.
func carve[T any](slab *[]T, n int) []T {
	if n == 0 {
		return nil
	}
	if n > cap(*slab)-len(*slab) {
		*slab = make([]T, 0, max(n, min(2*cap(*slab), 1024)))
	}
	at := len(*slab)
	*slab = (*slab)[:at+n]
	return (*slab)[at : at+n : at+n]
}
