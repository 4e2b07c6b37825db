package servertest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// LoseBranch makes a branch of a decided transaction unknown to its participant: a heuristic
// hazard, whose end cannot be proved.
func (f *Fake) LoseBranch(id txn.ID, branch txn.BranchID) error {
	_, err := f.withTx(context.Background(), "lose", id, func(i *txn.Info) error {
		if branch < 1 || int(branch) > len(i.Branches) || !i.State.Decided() {
			return refused("lose", i, txn.ErrInvalid, branch.String())
		}
		b := &i.Branches[branch-1]
		b.State, b.Heuristic, b.Detail = txn.BranchHeuristic, txn.HeuristicHazard, b.Participant+" does not know it"
		deriveHeuristic(i)
		return nil
	})
	return err
}

// InDoubts implements [server.Coordinator]: the fake has no phase two, so every transaction
// that is completing is in doubt.
func (f *Fake) InDoubts(ctx context.Context) ([]admin.InDoubt, error) {
	if err := f.before(ctx, "indoubt list", txn.ID{}); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var found []admin.InDoubt
	for _, i := range f.transactions {
		if why := inDoubtReason(i); why != "" {
			found = append(found, admin.InDoubt{Info: cloneInfo(i), Since: i.Decided, Why: why})
		}
	}
	slices.SortFunc(found, func(a, b admin.InDoubt) int { return a.ID.Compare(b.ID) })
	return found, nil
}

// inDoubtReason says why a transaction may need an operator; empty if it does not.
func inDoubtReason(i *txn.Info) string {
	switch {
	case i.Heuristic != 0:
		return "heuristic: " + i.Heuristic.String()
	case delegatedBranch(i) != 0:
		return "waits for the end of " + delegatedBranch(i).String()
	case i.State.Decided() && !i.State.Finished():
		return "is " + i.State.String()
	}
	return ""
}

// Explain implements [server.Coordinator].
func (f *Fake) Explain(ctx context.Context, id txn.ID) (e admin.Explanation, err error) {
	_, err = f.withTx(ctx, "indoubt explain", id, func(i *txn.Info) error {
		e = admin.Explanation{Transaction: cloneInfo(i), Summary: []string{"is " + i.State.String()}, Audit: f.auditOfLocked(id)}
		if i.State.Decided() {
			e.Summary = append(e.Summary, fmt.Sprintf("decided by entry %d", i.DecidedIndex))
		}
		for _, b := range i.Branches {
			e.Branches = append(e.Branches, f.probeBranch(b))
		}
		decided, finished := i.State.Decided(), i.State.Finished()
		e.Actions = []admin.Action{
			{Name: "retry", Allowed: decided && !finished, Why: "is " + i.State.String()},
			{Name: "commit", Allowed: decided && inDoubtReason(i) != "", Why: "is " + i.State.String()},
			{Name: "rollback", Allowed: (decided || delegatedBranch(i) == 0) && (!decided || inDoubtReason(i) != ""), Why: "is " + i.State.String()},
			{Name: "forget", Allowed: finished && i.Heuristic != 0, Why: "is " + i.State.String()},
		}
		return nil
	})
	return e, err
}

func (f *Fake) probeBranch(b txn.BranchInfo) admin.BranchProbe {
	q := admin.BranchProbe{Branch: b.Name, Participant: b.Participant, Detail: b.Detail, EarlierAttempts: b.Attempts}
	switch {
	case b.Heuristic == txn.HeuristicHazard:
		q.Outcome = "unknown"
	case b.State == txn.BranchPrepared:
		q.Prepared, q.Since, q.Locks = true, f.Began, []string{"table " + b.Participant}
	case b.State == txn.BranchCommitted || b.State == txn.BranchRolledBack:
		q.Outcome = b.State.String()
	}
	return q
}

// Retry implements [server.Coordinator]: it counts an attempt for each branch that is not
// finished, and does nothing else.
func (f *Fake) Retry(ctx context.Context, id txn.ID) error {
	count := func(i *txn.Info) error {
		for n := range i.Branches {
			if b := &i.Branches[n]; i.State.Decided() && !b.State.Finished() {
				b.Attempts++
			}
		}
		return nil
	}
	if !id.IsZero() {
		_, err := f.withTx(ctx, "indoubt retry", id, count)
		return err
	}
	if err := f.before(ctx, "indoubt retry", id); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, i := range f.transactions {
		_ = count(i) // always returns nil
	}
	return nil
}

// Resolve implements [server.Coordinator].
func (f *Fake) Resolve(ctx context.Context, id txn.ID, r admin.Resolution) (txn.Outcome, error) {
	end := txn.BranchRolledBack
	if r.Commit {
		end = txn.BranchCommitted
	}
	return f.withTx(ctx, "indoubt resolve", id, func(i *txn.Info) error {
		if err := requireUndelegated("indoubt resolve", i); err != nil {
			return err
		}
		record := admin.AuditRecord{Action: "resolve", ID: id, Branch: nameOf(r.Branch), Subject: end.String(), By: r.By, Reason: r.Reason}
		if f.isAuditedLocked(record) {
			return nil // repeated
		}
		if !i.State.Decided() {
			if r.Commit {
				return refused("indoubt resolve", i, txn.ErrConflict, "votes are missing")
			}
			i.Reason = r.Reason
			f.decideLocked(i, txn.RollingBack, txn.CauseOperator)
		} else if !applyResolution(i, r, end) {
			return refused("indoubt resolve", i, txn.ErrConflict, "not in doubt")
		}
		f.auditLocked(record)
		return nil
	})
}

// applyResolution records an operator's statement for each branch in doubt that it covers,
// and reports whether there is any.
func applyResolution(i *txn.Info, r admin.Resolution, end txn.BranchState) (some bool) {
	for n := range i.Branches {
		b := &i.Branches[n]
		if r.Branch != 0 && b.ID != r.Branch || b.State.Finished() && b.Heuristic != txn.HeuristicHazard {
			continue
		}
		some = true
		if r.Commit == i.State.Commits() {
			b.State, b.Heuristic, b.Detail = end, 0, ""
			continue
		}
		b.State, b.Heuristic, b.Detail = txn.BranchHeuristic, txn.HeuristicRollback, fmt.Sprintf("recorded by %s: %s", r.By, r.Reason)
		if r.Commit {
			b.Heuristic = txn.HeuristicCommit
		}
	}
	deriveHeuristic(i)
	return some
}

// Forget implements [server.Coordinator].
func (f *Fake) Forget(ctx context.Context, id txn.ID, by, reason string) (txn.Outcome, error) {
	return f.withTx(ctx, "indoubt forget", id, func(i *txn.Info) error {
		if !i.State.Finished() {
			return refused("indoubt forget", i, txn.ErrConflict, "its branches have to be finished first")
		}
		if i.Heuristic != 0 {
			f.auditLocked(admin.AuditRecord{Action: "forget", ID: id, Subject: "hazard " + i.Heuristic.String(), By: by, Reason: reason})
			i.Heuristic = 0
		}
		return nil
	})
}

func nameOf(b txn.BranchID) string {
	if b == 0 {
		return ""
	}
	return b.String()
}

func (f *Fake) auditLocked(a admin.AuditRecord) {
	a.Seq, a.Time, a.Index = uint64(len(f.audit)+1), f.Began, uint64(len(f.events)+1)
	f.audit = append(f.audit, a)
}

func (f *Fake) isAuditedLocked(a admin.AuditRecord) bool {
	return slices.ContainsFunc(f.audit, func(old admin.AuditRecord) bool {
		a.Seq, a.Time, a.Tick, a.Index = old.Seq, old.Time, old.Tick, old.Index
		return a == old
	})
}

func (f *Fake) auditOfLocked(id txn.ID) []admin.AuditRecord {
	var found []admin.AuditRecord
	for _, a := range f.audit {
		if id.IsZero() || a.ID == id {
			found = append(found, a)
		}
	}
	return found
}

// Audit implements [server.Coordinator]. The clock stands still, so no record is too old.
func (f *Fake) Audit(ctx context.Context, filter admin.AuditFilter) ([]admin.AuditRecord, error) {
	if err := f.before(ctx, "audit list", filter.ID); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	found := f.auditOfLocked(filter.ID)
	return found[max(0, len(found)-cmp.Or(filter.Limit, 1000)):], nil
}

// Doctor implements [server.Coordinator].
func (f *Fake) Doctor(ctx context.Context, participant string) ([]admin.Check, error) {
	if err := f.before(ctx, "doctor", txn.ID{}); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var found []admin.Check
	if participant == "" {
		one := admin.Check{Level: "ok", Subject: "leader", Message: "this node leads"}
		if f.notReady != nil {
			one.Level, one.Message, one.Remedy, one.Call = "failure", f.notReady.Error(), "see who leads", admin.CallStatus
		}
		found = append(found, one)
	} else if _, known := f.participants[participant]; !known {
		return nil, &txn.Error{Op: "doctor", Err: txn.ErrNotFound, Detail: "no participant " + participant}
	}
	for _, name := range slices.Sorted(maps.Keys(f.participants)) {
		if participant == "" || participant == name {
			found = append(found, admin.Check{Participant: name, Level: "ok", Subject: "kind", Message: f.participants[name].Kind})
		}
	}
	return found, nil
}
