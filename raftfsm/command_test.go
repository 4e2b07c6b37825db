package raftfsm

import (
	"encoding/hex"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

func id(n byte) txn.ID { return txn.ID{0x01, 0x9a, 0xb0, 6: 0xff, 15: n} }

type sample struct {
	name    string
	command machine.Command
}

// samples has one command of every kind, with every field set, in the order of the
// kinds. The first eleven are those of the first release.
var samples = []sample{
	{"Bootstrap", machine.Bootstrap{Cluster: "k7q", Interval: 100 * time.Millisecond, Retention: time.Hour, Retain: 1000}},
	{"Begin", machine.Begin{
		ID: id(1), Name: "transfer", Timeout: 30 * time.Second, Survival: 301, Expiry: 1301,
		Labels:   []machine.Label{{Key: "app", Value: "bank"}, {Key: "env", Value: ""}},
		Branches: []machine.Branch{{Participant: "orders", Payload: []byte{0, 0xff}, SessionRef: "pg:4711"}, {Participant: "stock"}},
	}},
	{"Enlist", machine.Enlist{ID: id(2), Branch: machine.Branch{Participant: "orders", Payload: []byte("p"), SessionRef: "my:12"}, Legacy: true}},
	{"Commit", machine.Commit{
		ID: id(3), Votes: []txn.BranchVote{{Branch: 1, Vote: txn.VotePrepared}, {Branch: 300, Vote: txn.VoteReadOnly}}, ClientCompletes: true,
	}},
	{"Rollback", machine.Rollback{ID: id(4), Cause: txn.CauseOperator, Reason: "stuck"}},
	{"Extend", machine.Extend{ID: id(5), Timeout: time.Minute, Survival: 601, Expiry: 2601}},
	{"Done", machine.ReportCompletion{ID: id(6), Reports: []txn.CompletionReport{{Branch: 1, State: txn.BranchCommitted}, {Branch: 2, State: txn.BranchRolledBack}}}},
	{"Hazard", machine.ReportHeuristic{ID: id(7), Branch: 2, Heuristic: txn.HeuristicHazard, Detail: "no proof", Legacy: true}},
	{"Forget", machine.Forget{ID: id(8), Reason: "repaired by hand"}},
	{"AddParticipant", machine.AddParticipant{Participant: admin.Participant{
		Name: "orders", Kind: "postgres", Settings: map[string]string{"dsn": "env:ORDERS", "a": "", "fence": "off"}, CoordinatorPrepares: true,
	}}},
	{"RemoveParticipant", machine.RemoveParticipant{Name: "orders"}},
	{"Vote", machine.Vote{
		ID: id(9), Votes: []txn.BranchVote{{Branch: 1, Vote: txn.VotePrepared}, {Branch: 300, Vote: txn.VoteNo}}, ClientCompletes: true, Reason: "no room",
	}},
	{"Delegate", machine.Delegate{ID: id(10), Branch: 300}},
	{"Resolve", machine.Resolve{ID: id(11), Branch: 300, Outcome: txn.BranchRolledBack, By: "ann", Reason: "looked there"}},
	{"ForgetBy", machine.Forget{ID: id(12), By: "ann", Reason: "repaired by hand"}},
	{"Proof", machine.ReportHeuristic{ID: id(13), Branch: 2, Heuristic: txn.HeuristicRollback, Detail: "it is aborted there"}},
	{"ResolveUndecided", machine.Resolve{ID: id(14), Branch: 300, Outcome: txn.BranchRolledBack, By: "ann", Reason: "stuck", Undecided: true}},
	{"SetMember", machine.SetMember{Member: machine.Member{Node: "n_01", Name: "alice", API: "https://a:7460", Version: "v1.2.3"}}},
	{"RemoveMember", machine.RemoveMember{Node: "n_01", By: "ann", Reason: "its disk is gone"}},
	{"AddToken", machine.AddToken{
		ID: "k7q2m9xa", Name: "app", Role: admin.RoleOperator, Hash: [32]byte{0xff, 31: 0x01}, Rate: 300, Expires: 1763740800123, By: "ann",
	}},
	{"RemoveToken", machine.RemoveToken{ID: "k7q2m9xa", By: "ann", Reason: "lost"}},
	{"Resume", machine.ResumeRecovery{By: "ann", Reason: "compared"}},
	{"BeginInSession", machine.Begin{
		ID: id(15), Name: "transfer", Timeout: 30 * time.Second, Survival: 301, Expiry: 1301,
		Labels: []machine.Label{{Key: "app", Value: "bank"}}, Branches: []machine.Branch{{Participant: "orders"}}, Session: sessionID(1),
	}},
	{"OpenSession", machine.OpenSession{ID: sessionID(2), Name: "app", TTL: 16 * time.Second}},
	{"CloseSession", machine.CloseSession{ID: sessionID(3)}},
	{"ExpireSessions", machine.ExpireSessions{IDs: []txn.SessionID{sessionID(4), sessionID(5)}}},
	{"BeginMarked", machine.Begin{
		ID: id(16), Name: "transfer", Timeout: 30 * time.Second, Survival: 301, Expiry: 1301,
		Labels: []machine.Label{{Key: "app", Value: "bank"}}, Branches: []machine.Branch{{Participant: "orders"}}, Session: sessionID(6),
		Mark: txn.Mark{Epoch: 1763740800123, Tick: 1000},
	}},
	{"EnlistOnce", machine.Enlist{ID: id(17), Branch: machine.Branch{Participant: "orders", Payload: []byte("p"), SessionRef: "my:13"}}},
	{"RegisterParticipant", machine.RegisterParticipant{Participant: admin.Participant{
		Name: "orders", Kind: "postgres", Settings: map[string]string{"dsn": "env:ORDERS", "a": "", "fence": "off"}, CoordinatorPrepares: true,
	}, By: "ann", Reason: "moved"}},
	{"UnregisterParticipant", machine.UnregisterParticipant{Name: "orders", By: "ann", Reason: "not used any more"}},
	{"EndedByHand", machine.EndedByApplication{ID: id(18), Branch: 300, Reason: "COMMIT was typed"}},
	{"AddTokenWithReason", machine.AddToken{
		ID: "k7q2m9xa", Name: "app", Role: admin.RoleOperator, Hash: [32]byte{0xff, 31: 0x01}, Rate: 300, Expires: 1763740800123, By: "ann", Reason: "for the shop",
	}},
	{"RecordAction", machine.RecordAction{Action: machine.ActionRequestTransfer, Subject: "n_01", By: "ann", Reason: "maintenance"}},
	{"BeginFlagged", machine.Begin{
		ID: id(19), Name: "order", Timeout: 30 * time.Second, Survival: 301, Expiry: 1301,
		Branches: []machine.Branch{{Participant: "orders", SessionRef: "my:14", Decides: true}}, Session: sessionID(6),
		Mark: txn.Mark{Epoch: 1763740800123, Tick: 1000},
	}},
	{"EnlistFlagged", machine.Enlist{ID: id(20), Branch: machine.Branch{Participant: "stock", SessionRef: "my:15", Revokes: true}}},
	{"ResolveDecides", machine.Resolve{ID: id(21), Branch: 1, Outcome: txn.BranchCommitted, By: "ann", Reason: "the database is lost", Decides: true}},
}

// first are the samples that the first release knew.
var first = samples[:kindRemoveParticipant]

// second are those of the second one.
var second = samples[:kindResolveUndecided]

// third are those of the third one.
var third = samples[:kindResumeRecovery]

// fourth are those of the fourth one.
var fourth = samples[:kindExpireSessions]

// fifth are those of entry-5.golden.
var fifth = samples[:kindEnlistOnce]

// equalGolden compares bytes with those that were stored when the format was made. The file is never written by a test: a
// difference means that logs and snapshots of earlier releases can no longer be read.
func equalGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	if want := golden(t, name); string(got) != string(want) {
		t.Errorf("%s: the stored form has changed:\n%s\nwant\n%s", name, dump(got), dump(want))
	}
}

func golden(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".golden"))
	if err != nil {
		t.Fatal(err)
	}
	data, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return data
}

func dump(b []byte) string {
	var s strings.Builder
	for i := 0; i < len(b); i += 32 {
		s.WriteString(hex.EncodeToString(b[i:min(i+32, len(b))]) + "\n")
	}
	return s.String()
}

func decodeCommand(data []byte) (machine.Command, error) {
	r := commandReader{reader: newReader(data)}
	c := r.command()
	return c, r.end()
}

func TestCommandGolden(t *testing.T) {
	for _, s := range samples {
		t.Run(s.name, func(t *testing.T) {
			equalGolden(t, s.name, AppendCommand(nil, s.command))
			got, err := decodeCommand(golden(t, s.name))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(s.command, got); d != "" {
				t.Errorf("decoded otherwise (-want +got):\n%s", d)
			}
		})
	}
}

// TestEveryCommandIsSampled reads the command types out of the machine's source, so that a new one cannot be forgotten here.
func TestEveryCommandIsSampled(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "txn", "machine", "command.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil && fn.Name.Name == "command" {
			types = append(types, fn.Recv.List[0].Type.(*ast.Ident).Name)
		}
	}
	var sampled []string
	for i, s := range samples {
		sampled = append(sampled, reflect.TypeOf(s.command).Name())
		if kind := AppendCommand(nil, s.command)[0]; int(kind) != i+1 {
			t.Errorf("%s has kind %d; want %d", s.name, kind, i+1)
		}
	}
	slices.Sort(types)
	slices.Sort(sampled)
	if d := cmp.Diff(types, slices.Compact(sampled)); d != "" || len(samples) != int(newestKind) {
		t.Errorf("%d kinds, %d samples; command types of package machine and samples differ (-machine +samples):\n%s", newestKind, len(samples), d)
	}
}

func TestCommandRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := genCommand().Draw(t, "command")
		data := AppendCommand(nil, want)
		got, err := decodeCommand(data)
		if err != nil {
			t.Fatalf("%x: %v", data, err)
		}
		if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
			t.Fatalf("decoded otherwise (-want +got):\n%s", d)
		}
		if again := AppendCommand(nil, got); string(again) != string(data) {
			t.Fatalf("encoded otherwise: %x, then %x", data, again)
		}
	})
}

func TestCommandCutShort(t *testing.T) {
	for _, s := range samples {
		data := AppendCommand(nil, s.command)
		for n := range data {
			if c, err := decodeCommand(data[:n]); err == nil {
				t.Errorf("%s: %d of %d bytes decode to %v", s.name, n, len(data), c)
			}
		}
	}
}

func TestAppendCommandAllocatesNothing(t *testing.T) {
	dst := make([]byte, 0, 4096)
	for _, s := range samples {
		if s.name == "AddParticipant" || s.name == "RegisterParticipant" {
			continue // sorts its settings
		}
		if n := testing.AllocsPerRun(100, func() { AppendCommand(dst, s.command) }); n != 0 {
			t.Errorf("%s: %v allocations", s.name, n)
		}
	}
}

func TestAppendCommandPanicsOnPointer(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a pointer was encoded")
		}
	}()
	AppendCommand(nil, &machine.Forget{})
}

// Generators: everything that the types can hold, not only what the machine accepts.

func genID() *rapid.Generator[txn.ID] {
	return rapid.Custom(func(t *rapid.T) (id txn.ID) {
		copy(id[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		return id
	})
}

// genSessionID gives the zero one, which is none, often.
func genSessionID() *rapid.Generator[txn.SessionID] {
	return rapid.OneOf(rapid.Just(txn.SessionID{}), rapid.Map(genID(), func(id txn.ID) txn.SessionID { return txn.SessionID(id) }))
}

func genDuration() *rapid.Generator[time.Duration] {
	return rapid.Map(rapid.Int64(), func(n int64) time.Duration { return time.Duration(n) })
}

func genTick() *rapid.Generator[survival.Tick] {
	return rapid.Map(rapid.Uint64(), func(n uint64) survival.Tick { return survival.Tick(n) })
}

func genLabels() *rapid.Generator[[]machine.Label] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) machine.Label {
		return machine.Label{Key: rapid.String().Draw(t, "key"), Value: rapid.String().Draw(t, "value")}
	}), 0, 5)
}

func genBranch() *rapid.Generator[machine.Branch] {
	return rapid.Custom(func(t *rapid.T) machine.Branch {
		return machine.Branch{
			Participant: rapid.String().Draw(t, "participant"),
			Payload:     rapid.SliceOf(rapid.Byte()).Draw(t, "payload"),
			SessionRef:  rapid.String().Draw(t, "session"),
			Decides:     rapid.Bool().Draw(t, "decides"), Revokes: rapid.Bool().Draw(t, "revokes"),
		}
	})
}

func genBranchID() *rapid.Generator[txn.BranchID] {
	return rapid.Map(rapid.Uint32(), func(n uint32) txn.BranchID { return txn.BranchID(n) })
}

func genVotes() *rapid.Generator[[]txn.BranchVote] {
	return rapid.SliceOf(rapid.Custom(func(t *rapid.T) txn.BranchVote {
		return txn.BranchVote{Branch: genBranchID().Draw(t, "branch"), Vote: txn.Vote(rapid.Byte().Draw(t, "vote"))}
	}))
}

func genParticipant() *rapid.Generator[admin.Participant] {
	return rapid.Custom(func(t *rapid.T) admin.Participant {
		return admin.Participant{
			Name: rapid.String().Draw(t, "name"), Kind: rapid.String().Draw(t, "kind"),
			Settings:            rapid.MapOfN(rapid.String(), rapid.String(), 0, 20).Draw(t, "settings"),
			CoordinatorPrepares: rapid.Bool().Draw(t, "coordinator prepares"),
		}
	})
}

func genMember() *rapid.Generator[machine.Member] {
	return rapid.Custom(func(t *rapid.T) machine.Member {
		text := func(name string) string { return rapid.String().Draw(t, name) }
		return machine.Member{Node: text("node"), Name: text("name"), API: text("api"), Version: text("version")}
	})
}

func genToken() *rapid.Generator[machine.Token] {
	return rapid.Custom(func(t *rapid.T) machine.Token {
		x := machine.Token{
			ID: rapid.String().Draw(t, "id"), Name: rapid.String().Draw(t, "name"), Role: admin.Role(rapid.Byte().Draw(t, "role")),
			Rate: rapid.Uint32().Draw(t, "rate"), Created: rapid.Int64().Draw(t, "made"), Expires: rapid.Int64().Draw(t, "expires"), By: rapid.String().Draw(t, "by"),
		}
		copy(x.Hash[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "hash"))
		return x
	})
}

func genCommand() *rapid.Generator[machine.Command] {
	return rapid.Custom(func(t *rapid.T) machine.Command {
		id, text := genID().Draw(t, "id"), rapid.String().Draw(t, "text")
		code := rapid.Byte().Draw(t, "code")
		kind := rapid.ByteRange(kindBootstrap, newestKind).Draw(t, "kind")
		switch kind {
		case kindBootstrap:
			return machine.Bootstrap{
				Cluster: text, Interval: genDuration().Draw(t, "interval"),
				Retention: genDuration().Draw(t, "retention"), Retain: rapid.Uint64().Draw(t, "retain"),
			}
		case kindBegin, kindBeginInSession, kindBeginMarked, kindBeginFlagged:
			return machine.Begin{
				Mark:    txn.Mark{Epoch: rapid.Uint64Range(0, 2).Draw(t, "life"), Tick: rapid.Uint64Range(0, 5).Draw(t, "mark")},
				Session: genSessionID().Draw(t, "session"),
				ID:      id, Name: text, Timeout: genDuration().Draw(t, "timeout"), Survival: rapid.Uint64().Draw(t, "survival"),
				Expiry: genTick().Draw(t, "expiry"), Labels: genLabels().Draw(t, "labels"),
				Branches: rapid.SliceOfN(genBranch(), 0, 5).Draw(t, "branches"),
			}
		case kindEnlist, kindEnlistOnce, kindEnlistFlagged:
			return machine.Enlist{ID: id, Branch: genBranch().Draw(t, "branch"), Legacy: rapid.Bool().Draw(t, "legacy")}
		case kindCommit:
			return machine.Commit{ID: id, Votes: genVotes().Draw(t, "votes"), ClientCompletes: rapid.Bool().Draw(t, "own")}
		case kindVote:
			return machine.Vote{ID: id, Votes: genVotes().Draw(t, "votes"), ClientCompletes: rapid.Bool().Draw(t, "own"), Reason: text}
		case kindEndedByApplication:
			return machine.EndedByApplication{ID: id, Branch: genBranchID().Draw(t, "branch"), Reason: text}
		case kindDelegate:
			return machine.Delegate{ID: id, Branch: genBranchID().Draw(t, "branch")}
		case kindResolve, kindResolveUndecided, kindResolveDecides:
			return machine.Resolve{
				ID: id, Branch: genBranchID().Draw(t, "branch"), Outcome: txn.BranchState(code), By: rapid.String().Draw(t, "by"), Reason: text,
				Undecided: kind == kindResolveUndecided, Decides: kind == kindResolveDecides,
			}
		case kindRollback:
			return machine.Rollback{ID: id, Cause: txn.Cause(code), Reason: text}
		case kindExtend:
			return machine.Extend{
				ID: id, Timeout: genDuration().Draw(t, "timeout"), Survival: rapid.Uint64().Draw(t, "survival"),
				Expiry: genTick().Draw(t, "expiry"),
			}
		case kindReportCompletion:
			acks := rapid.SliceOf(rapid.Custom(func(t *rapid.T) txn.CompletionReport {
				return txn.CompletionReport{Branch: genBranchID().Draw(t, "branch"), State: txn.BranchState(rapid.Byte().Draw(t, "state"))}
			})).Draw(t, "acks")
			return machine.ReportCompletion{ID: id, Reports: acks}
		case kindReportHeuristicLegacy, kindReportHeuristic:
			return machine.ReportHeuristic{
				ID: id, Branch: genBranchID().Draw(t, "branch"), Heuristic: txn.Heuristic(code), Detail: text, Legacy: rapid.Bool().Draw(t, "legacy"),
			}
		case kindForget, kindForgetBy:
			return machine.Forget{ID: id, By: rapid.String().Draw(t, "by"), Reason: text}
		case kindAddParticipant:
			return machine.AddParticipant{Participant: genParticipant().Draw(t, "participant")}
		case kindRemoveParticipant:
			return machine.RemoveParticipant{Name: text}
		case kindRegisterParticipant:
			return machine.RegisterParticipant{Participant: genParticipant().Draw(t, "participant"), By: text, Reason: text}
		case kindUnregisterParticipant:
			return machine.UnregisterParticipant{Name: text, By: text, Reason: text}
		case kindSetMember:
			return machine.SetMember{Member: genMember().Draw(t, "member")}
		case kindRemoveMember:
			return machine.RemoveMember{Node: rapid.String().Draw(t, "node"), By: rapid.String().Draw(t, "by"), Reason: text}
		case kindAddToken, kindAddTokenWithReason:
			x := genToken().Draw(t, "token")
			return machine.AddToken{ID: x.ID, Name: x.Name, Role: x.Role, Hash: x.Hash, Rate: x.Rate, Expires: x.Expires, By: x.By, Reason: text}
		case kindRecordAction:
			return machine.RecordAction{Action: machine.AuditAction(code), Subject: rapid.String().Draw(t, "subject"), By: rapid.String().Draw(t, "by"), Reason: text}
		case kindRemoveToken:
			return machine.RemoveToken{ID: rapid.String().Draw(t, "token"), By: rapid.String().Draw(t, "by"), Reason: text}
		case kindOpenSession:
			return machine.OpenSession{ID: txn.SessionID(id), Name: text, TTL: genDuration().Draw(t, "ttl")}
		case kindCloseSession:
			return machine.CloseSession{ID: txn.SessionID(id)}
		case kindExpireSessions:
			return machine.ExpireSessions{IDs: rapid.SliceOf(rapid.Map(genID(), func(id txn.ID) txn.SessionID { return txn.SessionID(id) })).Draw(t, "ids")}
		default:
			return machine.ResumeRecovery{By: rapid.String().Draw(t, "by"), Reason: text}
		}
	})
}
