package wire_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"pgregory.net/rapid"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

func messageOf(d protoreflect.MessageDescriptor) protoreflect.Message {
	t, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		panic(err)
	}
	return t.New()
}

var (
	text     = rapid.String()
	duration = rapid.Map(rapid.Int64Range(0, 1<<60), func(n int64) txn.Duration { return txn.Duration(n) })
	moment   = rapid.Map(rapid.Int64Range(0, 1<<60), func(n int64) time.Time { return time.Unix(0, n).UTC() })
	orNever  = rapid.OneOf(moment, rapid.Just(time.Time{}))
	lines    = rapid.SliceOfN(text, 0, 3)
	textList = rapid.MapOfN(text, text, 0, 3)
	txid     = rapid.Custom(func(t *rapid.T) txn.ID {
		id := txn.ID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		id[15] |= 1 // not the zero id
		return id
	})
	session  = rapid.OneOf(rapid.Just(txn.SessionID{}), rapid.Map(txid, func(id txn.ID) txn.SessionID { return txn.SessionID(id) }))
	branchID = rapid.Map(rapid.Uint32Min(1), func(n uint32) txn.BranchID { return txn.BranchID(n) })
)

func upTo[T ~uint8](last T) *rapid.Generator[T] {
	return rapid.Map(rapid.Uint8Range(1, uint8(last)), func(n uint8) T { return T(n) })
}

func orNone[T ~uint8](last T) *rapid.Generator[T] {
	return rapid.Map(rapid.Uint8Range(0, uint8(last)), func(n uint8) T { return T(n) })
}

var info = rapid.Custom(func(t *rapid.T) txn.Info {
	i := txn.Info{
		ID: txid.Draw(t, "id"), Name: text.Draw(t, "name"), State: upTo(txn.RolledBack).Draw(t, "state"),
		Cause: orNone(txn.CauseOperator).Draw(t, "cause"), Reason: text.Draw(t, "reason"), Heuristic: orNone(txn.HeuristicHazard).Draw(t, "hazard"),
		Timeout: duration.Draw(t, "timeout"), Began: moment.Draw(t, "began"), ExpiresIn: duration.Draw(t, "expires"),
		SurvivalIndex: rapid.Uint64().Draw(t, "survival"), RemainingInvocations: rapid.Uint64().Draw(t, "remaining"),
		ExpiryTick: rapid.Uint64().Draw(t, "tick"), Labels: textList.Draw(t, "labels"),
		Decided: orNever.Draw(t, "decided"), DecidedTick: rapid.Uint64().Draw(t, "decided tick"), DecidedIndex: rapid.Uint64().Draw(t, "decided index"),
		Session: session.Draw(t, "session"),
	}
	for range rapid.IntRange(0, 3).Draw(t, "branches") {
		id := branchID.Draw(t, "branch")
		i.Branches = append(i.Branches, txn.BranchInfo{
			ID: id, Name: id.String(), Participant: text.Draw(t, "participant"), Kind: text.Draw(t, "kind"), XID: text.Draw(t, "xid"),
			Vote: orNone(txn.VoteDelegated).Draw(t, "vote"), State: upTo(txn.BranchHeuristic).Draw(t, "branch state"),
			Heuristic: orNone(txn.HeuristicHazard).Draw(t, "branch hazard"), Detail: text.Draw(t, "detail"),
			Attempts: rapid.IntMin(0).Draw(t, "attempts"), LastError: text.Draw(t, "error"), NextTry: duration.Draw(t, "next"),
		})
	}
	return i
})

var number = rapid.Float64Range(0, 1e12)

var decision = rapid.Custom(func(t *rapid.T) admin.PoolDecision {
	return admin.PoolDecision{
		At: moment.Draw(t, "at"), From: rapid.IntMin(0).Draw(t, "from"), To: rapid.IntMin(0).Draw(t, "to"), Why: text.Draw(t, "why"),
		Rate: number.Draw(t, "rate"), Busy: number.Draw(t, "busy"), Bound: number.Draw(t, "bound"),
		Mean: duration.Draw(t, "mean"), P99: duration.Draw(t, "p99"), Queued: rapid.IntMin(0).Draw(t, "queued"),
	}
})

var member = rapid.Custom(func(t *rapid.T) admin.Member {
	return admin.Member{
		ID: text.Draw(t, "id"), Name: text.Draw(t, "name"), RaftAddr: text.Draw(t, "raft"), API: text.Draw(t, "api"), Version: text.Draw(t, "version"),
		Voter: rapid.Bool().Draw(t, "voter"), Leader: rapid.Bool().Draw(t, "leader"), Self: rapid.Bool().Draw(t, "self"),
		LastContact: txn.Duration(rapid.Int64Min(-1).Draw(t, "heard")), LogLag: rapid.Int64Min(-1).Draw(t, "behind"),
	}
})

var token = rapid.Custom(func(t *rapid.T) admin.Token {
	return admin.Token{
		ID: text.Draw(t, "id"), Name: text.Draw(t, "name"), Role: upTo(admin.RoleAdmin).Draw(t, "role"), Rate: rapid.Uint32().Draw(t, "rate"),
		Created: orNever.Draw(t, "made"), Expires: orNever.Draw(t, "expires"), By: text.Draw(t, "by"),
	}
})

// equal is equality but for nil and empty (invariant 1).
func equal(t *rapid.T, want, got any, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Fatal(diff)
	}
}

// overTheWire encodes and decodes a message.
func overTheWire[M proto.Message](t *rapid.T, m M) M {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	again := m.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(data, again); err != nil {
		t.Fatal(err)
	}
	return again.(M)
}

// Invariant 1: every value comes back equal.
func TestRoundTrips(t *testing.T) {
	status := rapid.Custom(func(t *rapid.T) admin.ParticipantStatus {
		return admin.ParticipantStatus{
			Participant: admin.Participant{Name: text.Draw(t, "name"), Kind: text.Draw(t, "kind"), Settings: textList.Draw(t, "settings"), CoordinatorPrepares: rapid.Bool().Draw(t, "prepares")},
			Healthy:     rapid.Bool().Draw(t, "healthy"), LastError: text.Draw(t, "error"), NextTry: duration.Draw(t, "next"),
			Queued: rapid.IntMin(0).Draw(t, "queued"), Running: rapid.IntMin(0).Draw(t, "running"),
			Since: orNever.Draw(t, "since"), ProbeTook: duration.Draw(t, "took"),
			Limit: rapid.IntMin(0).Draw(t, "limit"), Throughput: number.Draw(t, "throughput"), Mean: duration.Draw(t, "mean"), P99: duration.Draw(t, "p99"),
			Raised: rapid.Uint64().Draw(t, "raised"), Lowered: rapid.Uint64().Draw(t, "lowered"),
			Decision: rapid.Ptr(decision, true).Draw(t, "decision"),
		}
	})
	for name, check := range map[string]func(*rapid.T){
		"info": func(t *rapid.T) {
			want := info.Draw(t, "info")
			got, err := wire.ToInfo(overTheWire(t, wire.FromInfo(want)))
			equal(t, want, got, err)
		},
		"pools": func(t *rapid.T) {
			want := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) admin.Pool {
				return admin.Pool{
					Participant: text.Draw(t, "participant"), Limit: rapid.IntMin(0).Draw(t, "limit"), Running: rapid.IntMin(0).Draw(t, "running"),
					Queued: rapid.IntMin(0).Draw(t, "queued"), Throughput: number.Draw(t, "throughput"), Mean: duration.Draw(t, "mean"), P99: duration.Draw(t, "p99"),
					Raised: rapid.Uint64().Draw(t, "raised"), Lowered: rapid.Uint64().Draw(t, "lowered"),
					Decisions: rapid.SliceOfN(decision, 0, 3).Draw(t, "decisions"),
				}
			}), 0, 3).Draw(t, "pools")
			got, err := wire.ToPools(overTheWire(t, wire.FromPools(want)))
			equal(t, want, got, err)
		},
		"event": func(t *rapid.T) {
			want := admin.Event{
				ID: txid.Draw(t, "id"), Name: text.Draw(t, "name"), State: upTo(txn.RolledBack).Draw(t, "state"),
				Cause: orNone(txn.CauseOperator).Draw(t, "cause"), Heuristic: orNone(txn.HeuristicHazard).Draw(t, "hazard"),
				Tick: rapid.Uint64().Draw(t, "tick"), Time: moment.Draw(t, "time"),
			}
			got, err := wire.ToEvent(overTheWire(t, wire.FromEvent(want)))
			equal(t, want, got, err)
		},
		"filter": func(t *rapid.T) {
			want := admin.Filter{
				States: rapid.SliceOfN(upTo(txn.RolledBack), 0, 3).Draw(t, "states"), Participant: text.Draw(t, "participant"),
				OlderThan: time.Duration(duration.Draw(t, "older")), ExpiresWithin: time.Duration(duration.Draw(t, "within")),
				Labels: textList.Draw(t, "labels"), Prefix: text.Draw(t, "prefix"), Limit: rapid.IntRange(0, 1<<30).Draw(t, "limit"),
				Before: txn.ID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "before")),
			}
			got, err := wire.ToFilter(overTheWire(t, wire.FromFilter(want)))
			equal(t, want, got, err)
		},
		"participant": func(t *rapid.T) {
			want := status.Draw(t, "participant").Participant
			equal(t, want, wire.ToParticipant(overTheWire(t, wire.FromParticipant(want, "ann", "moved"))), nil)
		},
		"status": func(t *rapid.T) {
			n := rapid.IntMin(0)
			u := rapid.Uint64()
			want := admin.Status{
				Cluster: text.Draw(t, "cluster"), Node: text.Draw(t, "node"), Leader: true, LeaderID: text.Draw(t, "leader"), Version: text.Draw(t, "version"),
				Term: u.Draw(t, "term"), LogIndex: u.Draw(t, "index"), Tick: u.Draw(t, "tick"), Interval: duration.Draw(t, "interval"), Uptime: duration.Draw(t, "uptime"),
				Undecided: n.Draw(t, "open"), Delegated: n.Draw(t, "delegated"), Completing: n.Draw(t, "undone"), Finished: n.Draw(t, "finished"), Heuristics: n.Draw(t, "heuristic outcomes"),
				Committed: u.Draw(t, "committed"), RolledBack: u.Draw(t, "rolled"), TimedOut: u.Draw(t, "timed"), Sessions: n.Draw(t, "sessions"), SessionsExpired: u.Draw(t, "expired"), Commands: u.Draw(t, "commands"),
				Entries: u.Draw(t, "entries"), TickEntries: u.Draw(t, "ticks"), Syncs: u.Draw(t, "syncs"), LogBytes: rapid.Int64().Draw(t, "bytes"),
				RolledBackBy: rapid.MapOf(rapid.SampledFrom(txn.Causes()), u).Draw(t, "causes"),
				Incarnation:  u.Draw(t, "incarnation"), RecoveryPaused: rapid.Bool().Draw(t, "held"), WaitingFor: text.Draw(t, "waiting"),
				Members:      rapid.SliceOfN(member, 0, 3).Draw(t, "members"),
				Participants: rapid.SliceOfN(status, 0, 3).Draw(t, "participants"),
			}
			got, err := wire.ToStatus(overTheWire(t, wire.FromStatus(want)))
			equal(t, want, got, err)
		},
		"member": func(t *rapid.T) {
			want := member.Draw(t, "member")
			got, err := wire.ToMember(overTheWire(t, wire.FromMember(want)))
			equal(t, want, got, err)
		},
		"backup": func(t *rapid.T) {
			want := admin.Backup{
				Cluster: text.Draw(t, "cluster"), Incarnation: rapid.Uint64().Draw(t, "incarnation"), Index: rapid.Uint64().Draw(t, "index"),
				Term: rapid.Uint64().Draw(t, "term"), Tick: rapid.Uint64().Draw(t, "tick"), Taken: orNever.Draw(t, "taken"),
				Bytes: rapid.Int64().Draw(t, "bytes"), SHA256: text.Draw(t, "sum"),
			}
			got, err := wire.ToBackup(overTheWire(t, wire.FromBackup(want)))
			equal(t, want, got, err)
		},
		"tokens": func(t *rapid.T) {
			want := rapid.SliceOfN(token, 0, 3).Draw(t, "tokens")
			got, err := wire.ToTokens(overTheWire(t, wire.FromTokens(want)))
			equal(t, want, got, err)
			for _, one := range want {
				got, err := wire.ToToken(overTheWire(t, wire.FromToken(one)))
				equal(t, one, got, err)
			}
		},
		"token request": func(t *rapid.T) {
			want := admin.TokenRequest{
				Name: rapid.StringMatching(`[a-z]{1,64}`).Draw(t, "name"), Role: upTo(admin.RoleAdmin).Draw(t, "role"), Rate: rapid.Uint32().Draw(t, "rate"),
				TTL: time.Duration(duration.Draw(t, "ttl")), By: text.Draw(t, "by"), Reason: text.Draw(t, "reason"),
			}
			got, err := wire.ToTokenRequest(overTheWire(t, wire.FromTokenRequest(want)))
			equal(t, want, got, err)
		},
		"groups": func(t *rapid.T) {
			want := admin.DeadlineGroups{Tick: rapid.Uint64().Draw(t, "tick"), Interval: duration.Draw(t, "interval"), Next: rapid.Uint64().Draw(t, "next")}
			for range rapid.IntRange(0, 3).Draw(t, "groups") {
				want.Groups = append(want.Groups, admin.DeadlineGroup{
					ExpiryTick: rapid.Uint64().Draw(t, "tick"), RemainingInvocations: rapid.Uint64().Draw(t, "left"),
					ExpiresIn: duration.Draw(t, "in"), Transactions: rapid.IntMin(0).Draw(t, "n"),
				})
			}
			got, err := wire.ToDeadlineGroups(overTheWire(t, wire.FromDeadlineGroups(want)))
			equal(t, want, got, err)
		},
		"sessions": func(t *rapid.T) {
			var want []admin.ClientSession
			for range rapid.IntRange(0, 3).Draw(t, "sessions") {
				want = append(want, admin.ClientSession{
					ID: session.Draw(t, "session"), Name: text.Draw(t, "name"), State: orNone(txn.SessionExpired).Draw(t, "state"), TTL: duration.Draw(t, "ttl"),
					Opened: moment.Draw(t, "opened"), Transactions: rapid.IntMin(0).Draw(t, "n"), EndedTick: rapid.Uint64().Draw(t, "tick"),
				})
			}
			got, err := wire.ToSessions(overTheWire(t, wire.FromSessions(want)))
			equal(t, want, got, err)
			for _, s := range want {
				got, err := wire.ToSession(overTheWire(t, wire.FromSession(s)))
				equal(t, s, got, err)
			}
		},
		"session options": func(t *rapid.T) {
			want := txn.SessionOptions{
				ID: session.Draw(t, "session"), Name: rapid.StringMatching(`[a-z]{0,9}`).Draw(t, "name"),
				TTL: rapid.SampledFrom([]time.Duration{0, txn.MinSessionTTL, 1500 * time.Millisecond, txn.MaxSessionTTL}).Draw(t, "ttl"),
			}
			got, err := wire.ToSessionOptions(overTheWire(t, wire.FromSessionOptions(want)))
			equal(t, want, got, err)
		},
		"session filter": func(t *rapid.T) {
			want := admin.SessionFilter{Ended: rapid.Bool().Draw(t, "ended"), Limit: int(rapid.Int32Min(0).Draw(t, "limit"))}
			got, err := wire.ToSessionFilter(overTheWire(t, wire.FromSessionFilter(want)))
			equal(t, want, got, err)
		},
		"findings": func(t *rapid.T) {
			var want []admin.ScanResult
			for range rapid.IntRange(0, 3).Draw(t, "findings") {
				want = append(want, admin.ScanResult{
					Participant: text.Draw(t, "participant"), XID: text.Draw(t, "xid"), ID: txid.Draw(t, "id"), Branch: branchID.Draw(t, "branch"),
					Since: orNever.Draw(t, "since"), Owner: text.Draw(t, "owner"), State: orNone(txn.RolledBack).Draw(t, "state"),
					Locks: lines.Draw(t, "locks"), Waiters: lines.Draw(t, "waiters"), Class: text.Draw(t, "verdict"), Done: rapid.Bool().Draw(t, "done"), Error: text.Draw(t, "error"),
				})
			}
			got, err := wire.ToScanResults(overTheWire(t, wire.FromScanResults(want)))
			equal(t, want, got, err)
		},
		"options": func(t *rapid.T) {
			want := txn.Options{ID: txid.Draw(t, "id"), Name: text.Draw(t, "name"), Timeout: time.Duration(duration.Draw(t, "timeout")), Labels: textList.Draw(t, "labels"), Session: session.Draw(t, "session")}
			for range rapid.IntRange(0, 3).Draw(t, "branches") {
				want.Branches = append(want.Branches, txn.Enlistment{
					Participant: text.Draw(t, "participant"), Payload: rapid.SliceOf(rapid.Byte()).Draw(t, "payload"), SessionRef: text.Draw(t, "session"),
				})
			}
			got, err := wire.ToOptions(want.ID, overTheWire(t, wire.FromOptions(want)))
			equal(t, want, got, err)
		},
		"commitment": func(t *rapid.T) {
			want := txn.CommitRequest{ClientCompletes: rapid.Bool().Draw(t, "own")}
			for range rapid.IntRange(0, 3).Draw(t, "votes") {
				want.Votes = append(want.Votes, txn.BranchVote{Branch: branchID.Draw(t, "branch"), Vote: orNone(txn.VoteNo).Draw(t, "vote")})
			}
			got, err := wire.ToCommitRequest(overTheWire(t, wire.FromCommitRequest(want)))
			equal(t, want, got, err)
		},
		"ballot": func(t *rapid.T) {
			want := txn.Votes{ClientCompletes: rapid.Bool().Draw(t, "own"), Reason: text.Draw(t, "reason")}
			for range rapid.IntRange(0, 3).Draw(t, "votes") {
				want.Votes = append(want.Votes, txn.BranchVote{Branch: branchID.Draw(t, "branch"), Vote: orNone(txn.VoteNo).Draw(t, "vote")})
			}
			got, err := wire.ToVotes(overTheWire(t, wire.FromVotes(want)))
			equal(t, want, got, err)
		},
		"acks": func(t *rapid.T) {
			var want []txn.CompletionReport
			for range rapid.IntRange(0, 3).Draw(t, "acks") {
				want = append(want, txn.CompletionReport{Branch: branchID.Draw(t, "branch"), State: orNone(txn.BranchHeuristic).Draw(t, "state")})
			}
			got, err := wire.ToCompletionReports(overTheWire(t, wire.FromCompletionReports(want)))
			equal(t, want, got, err)
		},
		"begun": func(t *rapid.T) {
			want := txn.BeginResult{
				ID: txid.Draw(t, "id"), Timeout: time.Duration(duration.Draw(t, "timeout")),
				SurvivalIndex: rapid.Uint64().Draw(t, "survival"), ExpiryTick: rapid.Uint64().Draw(t, "tick"),
				Appoints: rapid.Bool().Draw(t, "appoints"),
			}
			for range rapid.IntRange(0, 3).Draw(t, "branches") {
				want.Branches = append(want.Branches, txn.Branch{ID: branchID.Draw(t, "branch"), Participant: text.Draw(t, "participant"), XID: text.Draw(t, "xid")})
			}
			got, err := wire.ToBeginResult(overTheWire(t, wire.FromBeginResult(want)))
			equal(t, want, got, err)
		},
		"outcome": func(t *rapid.T) {
			want := txn.Outcome{
				State: orNone(txn.RolledBack).Draw(t, "state"), Cause: orNone(txn.CauseOperator).Draw(t, "cause"), Heuristic: orNone(txn.HeuristicHazard).Draw(t, "hazard"),
			}
			got, err := wire.ToOutcome(overTheWire(t, wire.FromOutcome(want)))
			equal(t, want, got, err)
		},
	} {
		t.Run(name, func(t *testing.T) { rapid.Check(t, check) })
	}
}

// Invariant 2: invalid UTF-8 is replaced, and does not break the stream.
func TestBadTextIsMended(t *testing.T) {
	const bad = "caf\xe9"
	info := txn.Info{State: txn.Active, Name: bad, Reason: bad, Labels: map[string]string{bad: bad}, Branches: []txn.BranchInfo{{ID: 1, LastError: bad, Detail: bad, State: txn.BranchEnlisted}}}
	for _, m := range []proto.Message{
		wire.FromInfo(info),
		wire.FromOptions(txn.Options{Name: bad, Labels: map[string]string{bad: bad}, Branches: []txn.Enlistment{{Participant: bad, SessionRef: bad}}}),
		wire.FromFilter(admin.Filter{Participant: bad, Prefix: bad}),
		wire.FromParticipant(admin.Participant{Name: bad, Kind: bad, Settings: map[string]string{"a": bad}}, bad, bad),
		wire.FromParticipants([]admin.ParticipantStatus{{LastError: bad}})[0],
		wire.FromPools([]admin.Pool{{Participant: bad, Decisions: []admin.PoolDecision{{Why: bad}}}}),
		wire.FromScanResults([]admin.ScanResult{{Owner: bad, Error: bad, Locks: []string{bad}, Waiters: []string{bad}}}),
		wire.FromVotes(txn.Votes{Reason: bad}),
		wire.FromInDoubts([]admin.InDoubt{{Info: info, Why: bad}}),
		wire.FromExplanation(admin.Explanation{
			Transaction: info, Summary: []string{bad}, Actions: []admin.Action{{Name: bad, Why: bad}},
			Branches: []admin.BranchProbe{{
				Branch: bad, Participant: bad, Outcome: bad, Detail: bad, Error: bad, Locks: []string{bad}, Waiters: []string{bad},
				Attempts: []admin.CallAttempt{{Call: bad, Result: bad}},
			}},
		}),
		wire.FromResolution(info.ID, admin.Resolution{Reason: bad, By: bad}),
		wire.FromAudit([]admin.AuditRecord{{Action: bad, Branch: bad, Subject: bad, By: bad, Reason: bad}}),
		wire.FromChecks([]admin.Check{{Participant: bad, Level: bad, Subject: bad, Message: bad, Remedy: bad, Call: bad, CallParticipant: bad}}),
		wire.FromStatus(admin.Status{Node: bad, WaitingFor: bad, Members: []admin.Member{{ID: bad, Name: bad, RaftAddr: bad, API: bad, Version: bad}}}),
		wire.FromToken(admin.Token{ID: bad, Name: bad, By: bad}),
		wire.FromTokenRequest(admin.TokenRequest{Name: bad, By: bad, Reason: bad}),
		wire.FromBackup(admin.Backup{Cluster: bad, SHA256: bad}),
		wire.FromError(errors.New(bad), "get", txn.ID{}),
	} {
		if _, err := proto.Marshal(m); err != nil {
			t.Errorf("%T: %v", m, err)
		}
	}
	if got := wire.FromInfo(info).GetLabels()["caf\uFFFD"]; got != "caf\uFFFD" {
		t.Errorf("label is %q", got)
	}
	if info.Labels[bad] != bad {
		t.Error("the caller's map was changed")
	}
}

// Invariant 3: a request that cannot be decoded is an error of the right kind.
func TestRefusedRequests(t *testing.T) {
	for name, err := range map[string]error{
		"duration":  second(wire.ParseDuration("timeout", "30")),
		"negative":  second(wire.ParseDuration("timeout", "-3s")),
		"state":     second(wire.ToFilter(&txmgrv1.Filter{States: []string{"activ"}})),
		"no state":  second(wire.ToFilter(&txmgrv1.Filter{States: []string{""}})),
		"older":     second(wire.ToFilter(&txmgrv1.Filter{OlderThan: "x"})),
		"within":    second(wire.ToFilter(&txmgrv1.Filter{ExpiresWithin: "x"})),
		"limit":     second(wire.ToFilter(&txmgrv1.Filter{Limit: -1})),
		"id":        second(wire.IDFromBytes([]byte("short"))),
		"vote":      second(wire.ToCommitRequest(&txmgrv1.CommitCall{Votes: []*txmgrv1.BranchVote{{Branch: 1, Vote: 9}}})),
		"delegated": second(wire.ToVotes(&txmgrv1.VoteCall{Votes: []*txmgrv1.BranchVote{{Branch: 1, Vote: 4}}})),
		"ending":    second(wire.ToResolution(&txmgrv1.ResolveRequest{})),
		"branch":    second(wire.ToResolution(&txmgrv1.ResolveRequest{Outcome: "committed", Branch: "x"})),
		"audit id":  second(wire.ToAuditFilter(&txmgrv1.AuditRequest{Id: "x"})),
		"since":     second(wire.ToAuditFilter(&txmgrv1.AuditRequest{Since: "x"})),
		"records":   second(wire.ToAuditFilter(&txmgrv1.AuditRequest{Limit: -1})),
		"role":      second(wire.ToTokenRequest(&txmgrv1.CreateTokenRequest{Name: "x", Role: "king"})),
		"no name":   second(wire.ToTokenRequest(&txmgrv1.CreateTokenRequest{Role: "admin"})),
		"ttl":       second(wire.ToTokenRequest(&txmgrv1.CreateTokenRequest{Name: "x", Role: "admin", Ttl: "1"})),
		"ack":       second(wire.ToCompletionReports(&txmgrv1.ReportCompletionCall{Reports: []*txmgrv1.BranchCompletion{{Branch: 1, State: 256 + 3}}})),
	} {
		if !errors.Is(err, txn.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// Responses that this version cannot decode are errors, not zero values.
func TestRefusedAnswers(t *testing.T) {
	good := wire.FromInfo(txn.Info{ID: txn.ID{1}, State: txn.Active, Branches: []txn.BranchInfo{{ID: 1, State: txn.BranchEnlisted}}})
	for name, spoil := range map[string]func(*txmgrv1.Transaction){
		"id":      func(m *txmgrv1.Transaction) { m.Id = "tx_x" },
		"state":   func(m *txmgrv1.Transaction) { m.State = "asleep" },
		"cause":   func(m *txmgrv1.Transaction) { m.Cause = "weather" },
		"timeout": func(m *txmgrv1.Transaction) { m.Timeout = "long" },
		"began":   func(m *txmgrv1.Transaction) { m.Began = "today" },
		"branch":  func(m *txmgrv1.Transaction) { m.Branches[0].Id = "1" },
		"vote":    func(m *txmgrv1.Transaction) { m.Branches[0].Vote = "maybe" },
		"decided": func(m *txmgrv1.Transaction) { m.Decided = proto.String("today") },
		"hazard":  func(m *txmgrv1.Transaction) { m.Branches[0].Heuristic = proto.String("weather") },
	} {
		m := proto.Clone(good).(*txmgrv1.Transaction)
		spoil(m)
		if _, err := wire.ToInfo(m); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for name, err := range map[string]error{
		"doubt":       second(wire.ToInDoubts(&txmgrv1.ListInDoubtResponse{Transactions: []*txmgrv1.InDoubt{{State: "asleep"}}})),
		"since":       second(wire.ToInDoubts(&txmgrv1.ListInDoubtResponse{Transactions: []*txmgrv1.InDoubt{{Since: proto.String("today")}}})),
		"transaction": second(wire.ToExplanation(&txmgrv1.Explanation{Transaction: &txmgrv1.Transaction{State: "asleep"}})),
		"attempt":     second(wire.ToExplanation(&txmgrv1.Explanation{Branches: []*txmgrv1.BranchProbe{{Attempts: []*txmgrv1.CallAttempt{{Took: "long"}}}}})),
		"record":      second(wire.ToAudit(&txmgrv1.AuditResponse{Records: []*txmgrv1.AuditRecord{{Id: proto.String("x")}}})),
		"member":      second(wire.ToMember(&txmgrv1.Member{LastContact: "long"})),
		"status":      second(wire.ToStatus(&txmgrv1.StatusResponse{Members: []*txmgrv1.Member{{LastContact: "long"}}})),
		"backup":      second(wire.ToBackup(&txmgrv1.Backup{Taken: "today"})),
		"token":       second(wire.ToToken(&txmgrv1.Token{Role: "king"})),
		"tokens":      second(wire.ToTokens(&txmgrv1.ListTokensResponse{Tokens: []*txmgrv1.Token{{Created: "today"}}})),
		"finding":     second(wire.ToScanResults(&txmgrv1.ScanResponse{Results: []*txmgrv1.ScanResult{{State: "asleep"}}})),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := wire.ToOutcome(&txmgrv1.OutcomeReply{State: 256 + 4}); err == nil {
		t.Error("outcome: no error")
	}
	if _, err := wire.ToBeginResult(&txmgrv1.BeginReply{Id: []byte{1}}); err == nil {
		t.Error("begun: no error")
	}
}

// The numbers of a Pipe are a contract (pipe.proto).
func TestPipeNumbers(t *testing.T) {
	for _, c := range []struct {
		name string
		got  interface{ String() string }
		want string
	}{
		{"state 1", txn.State(1), "active"},
		{"state 2", txn.State(2), "preparing"},
		{"state 3", txn.State(3), "committing"},
		{"state 4", txn.State(4), "committed"},
		{"state 5", txn.State(5), "rolling-back"},
		{"state 6", txn.State(6), "rolled-back"},
		{"cause 1", txn.Cause(1), "client"},
		{"cause 2", txn.Cause(2), "timeout"},
		{"cause 3", txn.Cause(3), "vote-no"},
		{"cause 4", txn.Cause(4), "session-expired"},
		{"cause 5", txn.Cause(5), "operator"},
		{"hazard 1", txn.Heuristic(1), "committed"},
		{"hazard 2", txn.Heuristic(2), "rolled-back"},
		{"hazard 3", txn.Heuristic(3), "mixed"},
		{"hazard 4", txn.Heuristic(4), "unknown"},
		{"vote 1", txn.Vote(1), "prepared"},
		{"vote 2", txn.Vote(2), "read-only"},
		{"vote 3", txn.Vote(3), "no"},
		{"vote 4", txn.Vote(4), "delegated"},
		{"branch 1", txn.BranchState(1), "enlisted"},
		{"branch 2", txn.BranchState(2), "prepared"},
		{"branch 3", txn.BranchState(3), "committed"},
		{"branch 4", txn.BranchState(4), "rolled-back"},
		{"branch 5", txn.BranchState(5), "heuristic"},
	} {
		if c.got.String() != c.want {
			t.Errorf("%s is %q, want %q", c.name, c.got, c.want)
		}
	}
}

// Every batch gives commands or errors that are the caller's fault.
func FuzzCommands(f *testing.F) {
	seed, err := proto.Marshal(&txmgrv1.Batch{Commands: []*txmgrv1.Command{
		{Seq: 1, Id: make([]byte, 16), Call: &txmgrv1.Command_Commit{Commit: &txmgrv1.CommitCall{Votes: []*txmgrv1.BranchVote{{Branch: 1, Vote: 1}}}}},
		{Seq: 3, Call: &txmgrv1.Command_Vote{Vote: &txmgrv1.VoteCall{Reason: "x", Votes: []*txmgrv1.BranchVote{{Branch: 1, Vote: 4}}}}},
		{Seq: 2, Call: &txmgrv1.Command_Begin{Begin: &txmgrv1.BeginCall{Timeout: -1, Branches: []*txmgrv1.EnlistCall{{Participant: "bank"}}}}},
	}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, data []byte) {
		var b txmgrv1.Batch
		if proto.Unmarshal(data, &b) != nil {
			return
		}
		for _, c := range b.GetCommands() {
			id, err := wire.IDFromBytes(c.GetId())
			_, _ = wire.ToOptions(id, c.GetBegin())
			_ = wire.ToEnlistment(c.GetEnlist())
			_, cerr := wire.ToCommitRequest(c.GetCommit())
			_, verr := wire.ToVotes(c.GetVote())
			_, aerr := wire.ToCompletionReports(c.GetReportCompletion())
			for _, err := range []error{err, cerr, verr, aerr} {
				if err != nil && !errors.Is(err, txn.ErrInvalid) {
					t.Fatal(err)
				}
			}
		}
	})
}
