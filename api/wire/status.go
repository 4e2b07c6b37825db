package wire

import (
	"time"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// FromStatus gives the message for a node's status.
func FromStatus(s admin.Status) *txmgrv1.StatusResponse {
	return &txmgrv1.StatusResponse{
		Cluster: Text(s.Cluster), Node: Text(s.Node), Leader: s.Leader, LeaderId: Text(s.LeaderID), Version: Text(s.Version),
		Term: s.Term, LogIndex: s.LogIndex, Tick: s.Tick,
		Interval: formatDuration(time.Duration(s.Interval)), Uptime: formatDuration(time.Duration(s.Uptime)),
		Undecided: int64(s.Undecided), Delegated: int64(s.Delegated), Completing: int64(s.Completing), Finished: int64(s.Finished), Heuristics: int64(s.Heuristics),
		Committed: s.Committed, RolledBack: s.RolledBack, TimedOut: s.TimedOut, RolledBackBy: fromCauses(s.RolledBackBy),
		Sessions: int64(s.Sessions), SessionsExpired: s.SessionsExpired,
		Commands: s.Commands, Entries: s.Entries, TickEntries: s.TickEntries, Syncs: s.Syncs, LogBytes: s.LogBytes,
		Incarnation: s.Incarnation, RecoveryPaused: s.RecoveryPaused, WaitingFor: optional(Text(s.WaitingFor)), Members: fromMembers(s.Members),
		Participants: FromParticipants(s.Participants),
	}
}

// ToStatus reads the message for a node's status.
func ToStatus(m *txmgrv1.StatusResponse) (admin.Status, error) {
	var r fieldReader
	s := admin.Status{
		Cluster: m.GetCluster(), Node: m.GetNode(), Leader: m.GetLeader(), LeaderID: m.GetLeaderId(), Version: m.GetVersion(),
		Term: m.GetTerm(), LogIndex: m.GetLogIndex(), Tick: m.GetTick(),
		Interval: r.duration("interval", m.GetInterval()), Uptime: r.duration("uptime", m.GetUptime()),
		Undecided: int(m.GetUndecided()), Delegated: int(m.GetDelegated()), Completing: int(m.GetCompleting()), Finished: int(m.GetFinished()), Heuristics: int(m.GetHeuristics()),
		Committed: m.GetCommitted(), RolledBack: m.GetRolledBack(), TimedOut: m.GetTimedOut(), RolledBackBy: toCauses(m.GetRolledBackBy()),
		Sessions: int(m.GetSessions()), SessionsExpired: m.GetSessionsExpired(),
		Commands: m.GetCommands(), Entries: m.GetEntries(), TickEntries: m.GetTickEntries(), Syncs: m.GetSyncs(), LogBytes: m.GetLogBytes(),
		Incarnation: m.GetIncarnation(), RecoveryPaused: m.GetRecoveryPaused(), WaitingFor: m.GetWaitingFor(), Members: r.members(m.GetMembers()),
		Participants: r.participants(m.GetParticipants()),
	}
	return s, r.decodeError("status")
}

func fromCauses(counts map[txn.Cause]uint64) map[string]uint64 {
	m := make(map[string]uint64, len(counts))
	for c, n := range counts {
		m[c.String()] = n
	}
	return m
}

// toCauses leaves out the causes of a newer server that this release does not know.
func toCauses(m map[string]uint64) map[txn.Cause]uint64 {
	counts := make(map[txn.Cause]uint64, len(m))
	for _, c := range txn.Causes() {
		if n, ok := m[c.String()]; ok {
			counts[c] = n
		}
	}
	return counts
}

// FromParticipant gives the message for a registration.
func FromParticipant(p admin.Participant, by, reason string) *txmgrv1.AddRequest {
	return &txmgrv1.AddRequest{
		Name: Text(p.Name), Kind: Text(p.Kind), Settings: TextMap(p.Settings), CoordinatorPrepares: p.CoordinatorPrepares,
		By: Text(by), Reason: Text(reason),
	}
}

// ToParticipant reads the message for a registration.
func ToParticipant(m *txmgrv1.AddRequest) admin.Participant {
	return admin.Participant{
		Name: m.GetName(), Kind: m.GetKind(), Settings: emptyIfNil(m.GetSettings()), CoordinatorPrepares: m.GetCoordinatorPrepares(),
	}
}

// FromParticipants gives the messages for the health of participants.
func FromParticipants(ps []admin.ParticipantStatus) []*txmgrv1.ParticipantStatus {
	ms := make([]*txmgrv1.ParticipantStatus, len(ps))
	for n, p := range ps {
		ms[n] = &txmgrv1.ParticipantStatus{
			Name: Text(p.Name), Kind: Text(p.Kind), Settings: TextMap(p.Settings), CoordinatorPrepares: p.CoordinatorPrepares,
			Healthy: p.Healthy, LastError: Text(p.LastError), NextTryIn: formatDuration(time.Duration(p.NextTry)),
			Queued: int64(p.Queued), Running: int64(p.Running),
			Since: optional(formatTime(p.Since)), ProbeTook: formatDuration(time.Duration(p.ProbeTook)),
			Optimizer: Text(p.Optimizer), Limit: int64(p.Limit), Throughput: p.Throughput, Mean: formatDuration(time.Duration(p.Mean)), P99: formatDuration(time.Duration(p.P99)),
			Raised: p.Raised, Lowered: p.Lowered,
		}
		if p.Decision != nil {
			ms[n].Decision = fromPoolDecision(*p.Decision)
		}
	}
	return ms
}

// ToParticipants reads the messages for the health of participants.
func ToParticipants(ms []*txmgrv1.ParticipantStatus) ([]admin.ParticipantStatus, error) {
	var r fieldReader
	ps := r.participants(ms)
	return ps, r.decodeError("participants")
}

func (r *fieldReader) participants(ms []*txmgrv1.ParticipantStatus) []admin.ParticipantStatus {
	ps := make([]admin.ParticipantStatus, len(ms))
	for n, m := range ms {
		ps[n] = admin.ParticipantStatus{
			Participant: admin.Participant{
				Name: m.GetName(), Kind: m.GetKind(), Settings: emptyIfNil(m.GetSettings()), CoordinatorPrepares: m.GetCoordinatorPrepares(),
			},
			Healthy: m.GetHealthy(), LastError: m.GetLastError(), NextTry: r.duration("participants.next_try_in", m.GetNextTryIn()),
			Queued: int(m.GetQueued()), Running: int(m.GetRunning()),
			Since: r.time("participants.since", m.GetSince()), ProbeTook: r.duration("participants.probe_took", m.GetProbeTook()),
			Optimizer: m.GetOptimizer(), Limit: int(m.GetLimit()), Throughput: m.GetThroughput(), Mean: r.duration("participants.mean", m.GetMean()), P99: r.duration("participants.p99", m.GetP99()),
			Raised: m.GetRaised(), Lowered: m.GetLowered(),
		}
		if d := m.GetDecision(); d != nil {
			last := r.poolDecision(d)
			ps[n].Decision = &last
		}
	}
	return ps
}

// FromDeadlineGroups gives the message for the survival index.
func FromDeadlineGroups(g admin.DeadlineGroups) *txmgrv1.GroupsResponse {
	m := &txmgrv1.GroupsResponse{
		Tick: g.Tick, Interval: formatDuration(time.Duration(g.Interval)), Groups: make([]*txmgrv1.DeadlineGroup, len(g.Groups)), Next: g.Next,
	}
	for n, one := range g.Groups {
		m.Groups[n] = &txmgrv1.DeadlineGroup{
			ExpiryTick: one.ExpiryTick, RemainingInvocations: one.RemainingInvocations,
			ExpiresIn: formatDuration(time.Duration(one.ExpiresIn)), Transactions: int64(one.Transactions),
		}
	}
	return m
}

// ToDeadlineGroups reads the message for the survival index.
func ToDeadlineGroups(m *txmgrv1.GroupsResponse) (admin.DeadlineGroups, error) {
	var r fieldReader
	g := admin.DeadlineGroups{
		Tick: m.GetTick(), Interval: r.duration("interval", m.GetInterval()), Groups: make([]admin.DeadlineGroup, len(m.GetGroups())), Next: m.GetNext(),
	}
	for n, one := range m.GetGroups() {
		g.Groups[n] = admin.DeadlineGroup{
			ExpiryTick: one.GetExpiryTick(), RemainingInvocations: one.GetRemainingInvocations(),
			ExpiresIn: r.duration("groups.expires_in", one.GetExpiresIn()), Transactions: int(one.GetTransactions()),
		}
	}
	return g, r.decodeError("groups")
}

// FromScanResults gives the message for what a sweep found.
func FromScanResults(fs []admin.ScanResult) *txmgrv1.ScanResponse {
	m := &txmgrv1.ScanResponse{Results: make([]*txmgrv1.ScanResult, len(fs))}
	for n, f := range fs {
		m.Results[n] = &txmgrv1.ScanResult{
			Participant: Text(f.Participant), Xid: Text(f.XID), Id: formatID(f.ID), Branch: formatBranch(f.Branch),
			Since: optional(formatTime(f.Since)), Owner: Text(f.Owner), State: f.State.String(),
			Class: Text(f.Class), Done: f.Done, Error: Text(f.Error), Locks: textList(f.Locks), Waiters: textList(f.Waiters),
		}
	}
	return m
}

// ToScanResults reads the message for what a sweep found.
func ToScanResults(m *txmgrv1.ScanResponse) ([]admin.ScanResult, error) {
	var r fieldReader
	fs := make([]admin.ScanResult, len(m.GetResults()))
	for n, f := range m.GetResults() {
		fs[n] = admin.ScanResult{
			Participant: f.GetParticipant(), XID: f.GetXid(), ID: r.id("findings.id", f.GetId()),
			Branch: r.branch("findings.branch", f.GetBranch()), Since: r.time("findings.since", f.GetSince()), Owner: f.GetOwner(),
			Class: f.GetClass(), Done: f.GetDone(), Error: f.GetError(), Locks: textList(f.GetLocks()), Waiters: textList(f.GetWaiters()),
		}
		r.enum("findings.state", f.GetState(), &fs[n].State)
	}
	return fs, r.decodeError("results")
}

func formatBranch(b txn.BranchID) string {
	if b == 0 {
		return ""
	}
	return b.String()
}
