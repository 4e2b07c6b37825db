package wire_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

var (
	some   = rapid.IntRange(0, 3)
	record = rapid.Custom(func(t *rapid.T) admin.AuditRecord {
		return admin.AuditRecord{
			Seq: rapid.Uint64().Draw(t, "seq"), Time: moment.Draw(t, "time"), Tick: rapid.Uint64().Draw(t, "tick"), Index: rapid.Uint64().Draw(t, "index"),
			Action: text.Draw(t, "action"), ID: orZero.Draw(t, "id"), Branch: text.Draw(t, "branch"),
			Subject: text.Draw(t, "subject"), By: text.Draw(t, "by"), Reason: text.Draw(t, "reason"),
		}
	})
	orZero  = rapid.OneOf(txid, rapid.Just(txn.ID{}))
	attempt = rapid.Custom(func(t *rapid.T) admin.CallAttempt {
		return admin.CallAttempt{
			At: moment.Draw(t, "at"), Took: duration.Draw(t, "took"), Call: text.Draw(t, "call"), Result: text.Draw(t, "result"), Failed: rapid.Bool().Draw(t, "failed"),
		}
	})
	inquiry = rapid.Custom(func(t *rapid.T) admin.BranchProbe {
		return admin.BranchProbe{
			Branch: text.Draw(t, "branch"), Participant: text.Draw(t, "participant"), Prepared: rapid.Bool().Draw(t, "prepared"), Since: orNever.Draw(t, "since"),
			Outcome: text.Draw(t, "ending"), Detail: text.Draw(t, "detail"), Error: text.Draw(t, "error"),
			Locks: lines.Draw(t, "locks"), Waiters: lines.Draw(t, "waiters"),
			Attempts: rapid.SliceOfN(attempt, 0, 3).Draw(t, "attempts"), EarlierAttempts: rapid.IntMin(0).Draw(t, "earlier"),
		}
	})
	choice = rapid.Custom(func(t *rapid.T) admin.Action {
		return admin.Action{Name: text.Draw(t, "action"), Allowed: rapid.Bool().Draw(t, "allowed"), Why: text.Draw(t, "why")}
	})
	diagnosis = rapid.Custom(func(t *rapid.T) admin.Check {
		return admin.Check{
			Participant: text.Draw(t, "participant"), Level: text.Draw(t, "level"), Subject: text.Draw(t, "subject"), Message: text.Draw(t, "found"), Remedy: text.Draw(t, "fix"),
			Call: text.Draw(t, "call"), CallParticipant: text.Draw(t, "called for"),
		}
	})
)

// Invariant 1 for the requests of operators and their answers.
func TestRoundTripsOfDoubt(t *testing.T) {
	for name, check := range map[string]func(*rapid.T){
		"doubts": func(t *rapid.T) {
			var want []admin.InDoubt
			for range some.Draw(t, "transactions") {
				want = append(want, admin.InDoubt{Info: info.Draw(t, "info"), Since: orNever.Draw(t, "since"), Why: text.Draw(t, "why")})
			}
			got, err := wire.ToInDoubts(overTheWire(t, wire.FromInDoubts(want)))
			equal(t, want, got, err)
		},
		"explanation": func(t *rapid.T) {
			want := admin.Explanation{
				Transaction: info.Draw(t, "info"), Summary: lines.Draw(t, "story"), Branches: rapid.SliceOfN(inquiry, 0, 3).Draw(t, "branches"),
				Actions: rapid.SliceOfN(choice, 0, 3).Draw(t, "choices"), Audit: rapid.SliceOfN(record, 0, 3).Draw(t, "audit"),
			}
			got, err := wire.ToExplanation(overTheWire(t, wire.FromExplanation(want)))
			equal(t, want, got, err)
		},
		"resolution": func(t *rapid.T) {
			id := txid.Draw(t, "id")
			want := admin.Resolution{Commit: rapid.Bool().Draw(t, "commit"), Reason: text.Draw(t, "reason"), By: text.Draw(t, "by")}
			if rapid.Bool().Draw(t, "one") {
				want.Branch = branchID.Draw(t, "branch")
			}
			m := overTheWire(t, wire.FromResolution(id, want))
			got, err := wire.ToResolution(m)
			equal(t, want, got, err)
			if m.GetId() != id.String() {
				t.Fatalf("id %s became %s", id, m.GetId())
			}
		},
		"audit filter": func(t *rapid.T) {
			want := admin.AuditFilter{ID: orZero.Draw(t, "id"), Since: time.Duration(duration.Draw(t, "since")), Limit: rapid.IntRange(0, 1<<30).Draw(t, "limit")}
			got, err := wire.ToAuditFilter(overTheWire(t, wire.FromAuditFilter(want)))
			equal(t, want, got, err)
		},
		"audit": func(t *rapid.T) {
			want := rapid.SliceOfN(record, 0, 3).Draw(t, "records")
			got, err := wire.ToAudit(overTheWire(t, wire.FromAudit(want)))
			equal(t, want, got, err)
		},
		"diagnoses": func(t *rapid.T) {
			want := rapid.SliceOfN(diagnosis, 0, 3).Draw(t, "diagnoses")
			equal(t, want, wire.ToChecks(overTheWire(t, wire.FromChecks(want))), nil)
		},
	} {
		t.Run(name, func(t *testing.T) { rapid.Check(t, check) })
	}
}

// The API gives the same object, in the same order, as a program that encodes the types of
// package txn, with every field set and with as few as possible.
func TestJSONOfDoubtIsThatOfTheTypes(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	full := exampleInfo(t)
	plain := txn.Info{ID: full.ID, State: txn.Committing, Began: at, Labels: map[string]string{}, Branches: []txn.BranchInfo{{ID: 1, Name: "b1", State: txn.BranchPrepared}}}
	records := []admin.AuditRecord{
		{Seq: 1, Time: at, Tick: 5, Index: 6, Action: "resolve", ID: full.ID, Branch: "b1", Subject: "b1 committed", By: "ann", Reason: "she looked"},
		{Seq: 2, Time: at, Action: "participant-add", Subject: "bank"},
	}
	explanation := admin.Explanation{
		Transaction: plain, Summary: []string{"decided"}, Audit: records,
		Branches: []admin.BranchProbe{
			{
				Branch: "b1", Participant: "bank", Prepared: true, Since: at, Outcome: "unknown", Detail: "d", Error: "e", Locks: []string{"l"}, Waiters: []string{"w"},
				Attempts: []admin.CallAttempt{{At: at, Took: txn.Duration(time.Second), Call: "commit", Result: "refused", Failed: true}}, EarlierAttempts: 7,
			},
			{Branch: "b2", Locks: []string{}, Waiters: []string{}, Attempts: []admin.CallAttempt{}},
		},
		Actions: []admin.Action{{Name: "retry", Allowed: true, Why: "w"}, {Name: "forget"}},
	}
	doubts := []admin.InDoubt{{Info: full, Since: at, Why: "hazard"}, {Info: plain}}
	diagnoses := []admin.Check{{Participant: "bank", Level: "ok", Subject: "s", Message: "f", Remedy: "x", Call: "c", CallParticipant: "p"}, {}}
	findings := []admin.ScanResult{
		{
			Participant: "bank", XID: "x", ID: full.ID, Branch: 1, Since: at, Owner: "o", State: txn.Active,
			Locks: []string{"l"}, Waiters: []string{"w"}, Class: "leave", Done: true, Error: "e",
		},
		{Participant: "bank", XID: "a stranger's", Locks: []string{}, Waiters: []string{}, Class: "foreign"},
	}
	for _, c := range []struct {
		name    string
		ours    any
		message proto.Message
	}{
		{"", explanation, wire.FromExplanation(explanation)},
		{"transactions", doubts, wire.FromInDoubts(doubts)},
		{"records", records, wire.FromAudit(records)},
		{"checks", diagnoses, wire.FromChecks(diagnoses)},
		{"results", findings, wire.FromScanResults(findings)},
	} {
		if c.name != "" {
			c.ours = map[string]any{c.name: c.ours}
		}
		want, err := marshal(c.ours)
		if err != nil {
			t.Fatal(err)
		}
		got, err := wire.JSON{}.Marshal(c.message)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%T (-txn +api):\n%s", c.message, diff)
		}
	}
}

func marshal(v any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}

// A Doubt has all fields of a Transaction, and more.
func TestDoubtHasAllOfATransaction(t *testing.T) {
	doubt := (&txmgrv1.InDoubt{}).ProtoReflect().Descriptor().Fields()
	all := (&txmgrv1.Transaction{}).ProtoReflect().Descriptor().Fields()
	for i := range all.Len() {
		want := all.Get(i)
		got := doubt.ByNumber(want.Number())
		if got == nil || got.Name() != want.Name() || got.Kind() != want.Kind() || got.Cardinality() != want.Cardinality() || got.HasPresence() != want.HasPresence() {
			t.Errorf("%s: %v", want.FullName(), got)
		}
		if doubt.Get(i).Name() != want.Name() {
			t.Errorf("%s is not at place %d", want.Name(), i)
		}
	}
}

// Every explanation gives a value or an error.
func FuzzToExplanation(f *testing.F) {
	seed, err := proto.Marshal(wire.FromExplanation(admin.Explanation{
		Transaction: exampleInfo(f), Branches: []admin.BranchProbe{{Branch: "b1", Attempts: []admin.CallAttempt{{Took: 5}}}}, Audit: []admin.AuditRecord{{ID: txn.ID{1}}},
	}))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, data []byte) {
		var m txmgrv1.Explanation
		if proto.Unmarshal(data, &m) != nil {
			return
		}
		e, err := wire.ToExplanation(&m)
		if err != nil {
			return
		}
		if _, err := wire.ToExplanation(wire.FromExplanation(e)); err != nil {
			t.Fatalf("read once, not twice: %v", err)
		}
	})
}
