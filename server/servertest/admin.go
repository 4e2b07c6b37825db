package servertest

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// DeadlineGroups implements [server.Coordinator].
func (f *Fake) DeadlineGroups(ctx context.Context, r admin.DeadlineGroupRange) (admin.DeadlineGroups, error) {
	if err := f.before(ctx, "timeouts", txn.ID{}); err != nil {
		return admin.DeadlineGroups{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	counts := make(map[uint64]int)
	for _, i := range f.transactions {
		if !i.State.Decided() {
			counts[i.ExpiryTick]++
		}
	}
	g := admin.DeadlineGroups{Interval: txn.Duration(Interval)}
	for _, tick := range slices.Sorted(maps.Keys(counts)) {
		if tick < r.From {
			continue
		}
		if r.Limit > 0 && len(g.Groups) == r.Limit {
			g.Next = tick
			break
		}
		g.Groups = append(g.Groups, admin.DeadlineGroup{
			ExpiryTick: tick, RemainingInvocations: tick, ExpiresIn: txn.Duration(tick) * txn.Duration(Interval), Transactions: counts[tick],
		})
	}
	return g, nil
}

// AddParticipant implements [server.Coordinator].
func (f *Fake) AddParticipant(ctx context.Context, p admin.Participant, by, reason string) error {
	if err := f.before(ctx, "add participant", txn.ID{}); err != nil {
		return err
	}
	if err := p.Check(); err != nil {
		return &txn.Error{Op: "add participant", Err: err}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if old, known := f.participants[p.Name]; known && old.Kind != p.Kind {
		return &txn.Error{Op: "add participant", Err: txn.ErrConflict, Detail: p.Name + " is of kind " + old.Kind}
	}
	f.participants[p.Name] = p
	f.auditLocked(admin.AuditRecord{Action: "participant-add", Subject: p.Name, By: by, Reason: reason})
	return nil
}

// Participants implements [server.Coordinator].
func (f *Fake) Participants(ctx context.Context) ([]admin.ParticipantStatus, error) {
	if err := f.before(ctx, "list participants", txn.ID{}); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var ps []admin.ParticipantStatus
	for _, name := range slices.Sorted(maps.Keys(f.participants)) {
		ps = append(ps, admin.ParticipantStatus{Participant: f.participants[name], Healthy: true, Limit: 4, Raised: 1})
	}
	return ps, nil
}

// Pools implements [server.Coordinator]: a participant gets four calls at once, since it
// was registered.
func (f *Fake) Pools(ctx context.Context, participant string) ([]admin.Pool, error) {
	if err := f.before(ctx, "pools", txn.ID{}); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.participants[participant]; !ok && participant != "" {
		return nil, &txn.Error{Op: "pools", Err: txn.ErrNotFound, Detail: "no participant " + participant}
	}
	var ps []admin.Pool
	for _, name := range slices.Sorted(maps.Keys(f.participants)) {
		if participant == "" || participant == name {
			ps = append(ps, admin.Pool{
				Participant: name, Limit: 4, Throughput: 12.5, Raised: 1,
				Decisions: []admin.PoolDecision{{At: f.Began, From: 2, To: 4, Why: "4 completes more than 2", Rate: 12.5}},
			})
		}
	}
	return ps, nil
}

// TestParticipant implements [server.Coordinator].
func (f *Fake) TestParticipant(ctx context.Context, name string) error {
	return f.participant(ctx, "test participant", name, func() {})
}

// RemoveParticipant implements [server.Coordinator].
func (f *Fake) RemoveParticipant(ctx context.Context, name, by, reason string) error {
	return f.participant(ctx, "remove participant", name, func() {
		delete(f.participants, name)
		f.auditLocked(admin.AuditRecord{Action: "participant-remove", Subject: name, By: by, Reason: reason})
	})
}

func (f *Fake) participant(ctx context.Context, op, name string, do func()) error {
	if err := f.before(ctx, op, txn.ID{}); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.participants[name]; !ok {
		return &txn.Error{Op: op, Err: txn.ErrNotFound, Detail: "no participant " + name}
	}
	do()
	return nil
}

// Scan implements [server.Coordinator]: it finds the prepared branches.
func (f *Fake) Scan(ctx context.Context, participant string, apply bool) ([]admin.ScanResult, error) {
	if err := f.before(ctx, "scan", txn.ID{}); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var found []admin.ScanResult
	for _, i := range f.transactions {
		for _, b := range i.Branches {
			if b.State != txn.BranchPrepared || participant != "" && b.Participant != participant {
				continue
			}
			one := admin.ScanResult{
				Participant: b.Participant, XID: b.XID, ID: i.ID, Branch: b.ID, Since: f.Began, Owner: "app",
				Locks: []string{"table " + b.Participant}, State: i.State, Class: "leave",
			}
			switch {
			case i.State.Commits():
				one.Class, one.Done = "commit", apply
			case i.State.Decided():
				one.Class, one.Done = "rollback", apply
			}
			found = append(found, one)
		}
	}
	slices.SortFunc(found, func(a, b admin.ScanResult) int { return strings.Compare(a.XID, b.XID) })
	return found, nil
}

// Status implements [server.Coordinator].
func (f *Fake) Status(ctx context.Context) (admin.Status, error) {
	if err := f.before(ctx, "status", txn.ID{}); err != nil {
		return admin.Status{}, err
	}
	participants, err := f.Participants(ctx)
	if err != nil {
		return admin.Status{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := admin.Status{
		Cluster: Cluster, Node: "n1", Leader: true, LeaderID: "n1", Version: "test", Term: 3, Interval: txn.Duration(Interval),
		RecoveryPaused: f.recoveryPaused, Members: slices.Clone(f.members), Participants: participants, RolledBackBy: make(map[txn.Cause]uint64),
	}
	s.Leader = !f.isFollower
	if f.isFollower {
		s.LeaderID = ""
	}
	if f.isFollower && f.leader == "" {
		for i := range s.Members {
			s.Members[i].Leader = false
		}
	}
	for _, g := range f.sessions {
		switch g.State {
		case txn.SessionOpen:
			s.Sessions++
		case txn.SessionExpired:
			s.SessionsExpired++
		}
	}
	for _, i := range f.transactions {
		if i.Heuristic != 0 {
			s.Heuristics++
		}
		switch {
		case !i.State.Decided():
			s.Undecided++
		case i.State.Commits():
			s.Committed++
		default:
			s.RolledBack++
			s.RolledBackBy[i.Cause]++
			if i.Cause == txn.CauseTimeout {
				s.TimedOut++
			}
		}
	}
	return s, nil
}
