package wire_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// files are all of the API.
var files = []protoreflect.FileDescriptor{
	txmgrv1.File_txmgr_v1_transaction_proto, txmgrv1.File_txmgr_v1_info_proto, txmgrv1.File_txmgr_v1_pipeline_proto,
	txmgrv1.File_txmgr_v1_failure_proto, txmgrv1.File_txmgr_v1_participant_proto, txmgrv1.File_txmgr_v1_timeout_proto,
	txmgrv1.File_txmgr_v1_indoubt_proto, txmgrv1.File_txmgr_v1_cluster_proto,
}

// exampleInfo is a transaction with something in every field.
func exampleInfo(t testing.TB) txn.Info {
	id, err := txn.ParseID("tx_01k9x3v7h2m8qf4r6t0bz5n1de")
	if err != nil {
		t.Fatal(err)
	}
	return txn.Info{
		ID: id, Name: "transfer", State: txn.RollingBack, Cause: txn.CauseVoteNo, Reason: "no \"funds\" <\u00e9>", Heuristic: txn.HeuristicMixed,
		Timeout: txn.Duration(30 * time.Second), Began: time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC),
		Decided: time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC), DecidedTick: 4700, DecidedIndex: 99, ExpiresIn: txn.Duration(12300 * time.Millisecond),
		SurvivalIndex: 301, RemainingInvocations: 123, ExpiryTick: 4711, Labels: map[string]string{"b": "2", "a": "1"},
		Branches: []txn.BranchInfo{{
			ID: 1, Name: "b1", Participant: "bank", Kind: "postgres", XID: txn.XID("c7f2", id, 1), Vote: txn.VotePrepared,
			State: txn.BranchHeuristic, Heuristic: txn.HeuristicCommit, Detail: "pg_xact_status: committed", Attempts: 17, LastError: "connection\nrefused", NextTry: txn.Duration(8 * time.Second),
		}},
	}
}

// The answer to Get is the object that the reference promises, byte for byte.
func TestJSONOfTransactionIsGolden(t *testing.T) {
	const golden = `{"id":"tx_01k9x3v7h2m8qf4r6t0bz5n1de","name":"transfer","state":"rolling-back","cause":"vote-no",` +
		`"reason":"no \"funds\" <é>","heuristic":"mixed","timeout":"30s","began":"2026-01-02T03:04:05.0000006Z",` +
		`"decided":"2026-01-02T03:04:06Z","decided_tick":4700,"decided_index":99,"expires_in":"12.3s",` +
		`"survival_index":301,"remaining_invocations":123,"expiry_tick":4711,"labels":{"a":"1","b":"2"},` +
		`"branches":[{"id":"b1","participant":"bank","kind":"postgres","xid":"txm_c7f2_01k9x3v7h2m8qf4r6t0bz5n1de_b1",` +
		`"vote":"prepared","state":"heuristic","heuristic":"committed","detail":"pg_xact_status: committed","attempts":17,"last_error":"connection\nrefused","next_try_in":"8s"}]}`
	got, err := wire.JSON{}.Marshal(wire.FromInfo(exampleInfo(t)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(golden, string(got)); diff != "" {
		t.Error(diff)
	}
}

// The API gives the same object as a program that encodes the types of package txn.
func TestJSONIsThatOfTheTypes(t *testing.T) {
	decision := admin.PoolDecision{At: time.Unix(5, 0).UTC(), From: 16, To: 32, Why: "more is done", Rate: 0.1, Busy: 15.99, Bound: 1, Mean: txn.Duration(time.Second), Queued: 7}
	pool := admin.Pool{Participant: "bank", Limit: 32, Throughput: 1e21, Decisions: []admin.PoolDecision{decision, {At: time.Unix(6, 0).UTC()}}}
	status := admin.Status{
		Cluster: "c7f2", Node: "n1", Leader: true, Term: 3, Interval: txn.Duration(time.Second), LogBytes: 12, Incarnation: 2, RecoveryPaused: true, WaitingFor: "the others",
		Members:   []admin.Member{{ID: "n1", Name: "one", RaftAddr: "10.0.0.1:7461", API: "https://one:7460", Version: "v1", Voter: true, Leader: true, Self: true, LastContact: -1, LogLag: -1}},
		Undecided: 5, Delegated: 2, RolledBack: 7, TimedOut: 3, RolledBackBy: map[txn.Cause]uint64{txn.CauseTimeout: 3, txn.CauseVoteNo: 2, txn.CauseOperator: 0},
		Participants: []admin.ParticipantStatus{
			{Participant: admin.Participant{Name: "bank", Kind: "postgres", Settings: map[string]string{"dsn": "x"}}, Queued: 2},
			{
				Participant: admin.Participant{Name: "stock", Kind: "web", Settings: map[string]string{"url": "x"}}, Since: time.Unix(5, 0).UTC(), ProbeTook: txn.Duration(time.Second),
				Limit: 32, Throughput: 1234.5, Mean: txn.Duration(time.Millisecond), P99: txn.Duration(time.Second), Raised: 3, Lowered: 1, Decision: &decision,
			},
		},
	}
	token := admin.Token{ID: "abcdefgh", Name: "ci", Role: admin.RoleOperator, Rate: 7, Created: time.Unix(5, 0).UTC(), Expires: time.Unix(9, 0).UTC(), By: "ann"}
	backup := admin.Backup{Cluster: "c7f2", Incarnation: 1, Index: 2, Term: 3, Tick: 4, Taken: time.Unix(5, 0).UTC(), Bytes: 6, SHA256: "ab"}
	event := admin.Event{ID: exampleInfo(t).ID, Name: "n", State: txn.Committed, Tick: 7, Time: time.Unix(5, 0).UTC()}
	groups := admin.DeadlineGroups{Tick: 4, Interval: txn.Duration(time.Second), Groups: []admin.DeadlineGroup{{ExpiryTick: 9, RemainingInvocations: 5, Transactions: 2}}}
	for _, c := range []struct {
		ours    any
		message proto.Message
	}{
		{exampleInfo(t), wire.FromInfo(exampleInfo(t))},
		{status, wire.FromStatus(status)},
		{event, wire.FromEvent(event)},
		{pool, wire.FromPools([]admin.Pool{pool}).GetPools()[0]},
		{groups, wire.FromDeadlineGroups(groups)},
		{admin.Status{RolledBackBy: map[txn.Cause]uint64{}, Members: []admin.Member{}, Participants: []admin.ParticipantStatus{}}, wire.FromStatus(admin.Status{})},
		{status.Members[0], wire.FromMember(status.Members[0])},
		{token, wire.FromToken(token)},
		{admin.Token{ID: "abcdefgh", Role: admin.RoleReader, Created: token.Created}, wire.FromToken(admin.Token{ID: "abcdefgh", Role: admin.RoleReader, Created: token.Created})},
		{backup, wire.FromBackup(backup)},
	} {
		want, err := json.Marshal(c.ours)
		if err != nil {
			t.Fatal(err)
		}
		got, err := wire.JSON{}.Marshal(c.message)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(object(t, want), object(t, got)); diff != "" {
			t.Errorf("%T (-txn +api):\n%s", c.ours, diff)
		}
	}
}

func object(t *testing.T, data []byte) (v map[string]any) {
	t.Helper()
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	return v
}

// Every name is one and the same in .proto, JSON and documentation, and every
// kind of field has a JSON form.
func TestNamesAndKinds(t *testing.T) {
	for _, f := range files {
		for i := range f.Messages().Len() {
			m := f.Messages().Get(i)
			for j := range m.Fields().Len() {
				field := m.Fields().Get(j)
				pipe := f == txmgrv1.File_txmgr_v1_pipeline_proto // is binary: its JSON is not used
				if string(field.Name()) != field.JSONName() && !pipe {
					t.Errorf("%s: JSON name %q: add json_name", field.FullName(), field.JSONName())
				}
			}
			if _, err := (wire.JSON{}).Marshal(fill(m).Interface()); err != nil {
				t.Errorf("%s: %v", m.FullName(), err)
			}
		}
	}
}

// fill makes a message with something in every field.
func fill(d protoreflect.MessageDescriptor) protoreflect.Message {
	m := messageOf(d)
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		switch {
		case f.IsMap():
			v := f.MapValue().Default()
			if f.MapValue().Kind() == protoreflect.StringKind {
				v = protoreflect.ValueOfString("v")
			}
			m.Mutable(f).Map().Set(protoreflect.ValueOfString("k").MapKey(), v)
		case f.IsList() && f.Kind() == protoreflect.MessageKind:
			m.Mutable(f).List().Append(protoreflect.ValueOfMessage(fill(f.Message())))
		case f.IsList():
			m.Mutable(f).List().Append(protoreflect.ValueOfString("s")) // other kinds of lists panic
		case f.Kind() == protoreflect.MessageKind:
			m.Set(f, protoreflect.ValueOfMessage(fill(f.Message())))
		default:
			m.Set(f, f.Default())
		}
	}
	return m
}

func TestJSONRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &txmgrv1.BeginRequest{
			Name:    rapid.String().Draw(t, "name"),
			Timeout: rapid.StringMatching(`[0-9]{1,3}s`).Draw(t, "timeout"),
			Labels:  rapid.MapOfN(rapid.String(), rapid.String(), 0, 4).Draw(t, "labels"),
		}
		for range rapid.IntRange(0, 3).Draw(t, "branches") {
			m.Branches = append(m.Branches, &txmgrv1.Enlistment{Participant: rapid.String().Draw(t, "participant"), Payload: rapid.SliceOf(rapid.Byte()).Draw(t, "payload")})
		}
		data, err := wire.JSON{}.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var ours, theirs txmgrv1.BeginRequest
		if err := (wire.JSON{}).Unmarshal(data, &ours); err != nil {
			t.Fatalf("%v: %s", err, data)
		}
		if diff := cmp.Diff(m, &ours, protocmp.Transform()); diff != "" {
			t.Fatal(diff)
		}
		if err := protojson.Unmarshal(data, &theirs); err != nil || !proto.Equal(&ours, &theirs) {
			t.Fatalf("protojson reads %v, %v", &theirs, err)
		}
	})
}

func TestJSONRefusals(t *testing.T) {
	for _, c := range []struct {
		name, data string
		into       proto.Message
		want       []string
	}{
		{"unknown field", `{"timeot":"30s"}`, &txmgrv1.BeginRequest{}, []string{"BeginRequest", `unknown field "timeot"`, "id, name, timeout, labels, branches"}},
		{"unknown field, none known", `{"x":1}`, &txmgrv1.StatusRequest{}, []string{"StatusRequest", `"x"`, "there are none"}},
		{"camel case", `{"ownPhaseTwo":true}`, &txmgrv1.CommitRequest{}, []string{"ownPhaseTwo", "client_completes"}},
		{"wrong type", `{"timeout":30}`, &txmgrv1.BeginRequest{}, []string{"BeginRequest", "timeout"}},
		{"not JSON", `{"timeout":`, &txmgrv1.BeginRequest{}, []string{"BeginRequest", "unexpected"}},
		{"nothing", ``, &txmgrv1.BeginRequest{}, []string{"BeginRequest", "at least {}"}},
		{"a list", `[]`, &txmgrv1.BeginRequest{}, []string{"BeginRequest", "unexpected token ["}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := wire.JSON{}.Unmarshal([]byte(c.data), c.into)
			if err == nil {
				t.Fatal("no error")
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q does not say %q", err, w)
				}
			}
		})
	}
	if err := (wire.JSON{}).Unmarshal([]byte(`{}`), new(int)); err == nil {
		t.Error("decoded into an int")
	}
	if _, err := (wire.JSON{}).Marshal(1); err == nil {
		t.Error("encoded an int")
	}
}

func FuzzJSON(f *testing.F) {
	f.Add([]byte(`{"id":"tx_01k9x3v7h2m8qf4r6t0bz5n1de","branches":[{"participant":"bank","payload":"AAE="}],"labels":{"a":"b"}}`))
	f.Add([]byte(`{"name":"\ud83d\ude00\u0000"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var m, again txmgrv1.BeginRequest
		if (wire.JSON{}).Unmarshal(data, &m) != nil {
			return
		}
		out, err := wire.JSON{}.Marshal(&m)
		if err != nil {
			t.Fatal(err)
		}
		if err := (wire.JSON{}).Unmarshal(out, &again); err != nil || !proto.Equal(&m, &again) {
			t.Fatalf("%s: %v", out, err)
		}
	})
}
