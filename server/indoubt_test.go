package server_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/txn"
)

const (
	id2 = "tx_01k9x3v7h2m8qf4r6t0bz5n1df"
	id3 = "tx_01k9x3v7h2m8qf4r6t0bz5n1dg"
)

// step is one call and its response, byte for byte.
type step struct{ method, body, want string }

func (r *running) runSteps(steps []step) {
	r.t.Helper()
	for _, s := range steps {
		a := r.curl(s.method, s.body)
		if diff := cmp.Diff(s.want, a.body); diff != "" || a.status != http.StatusOK {
			r.t.Fatalf("%s: %d %v\n%s", s.method, a.status, a.header, diff)
		}
	}
}

// Votes that are reported one by one, and a vote no.
func TestVotesWithCurl(t *testing.T) {
	const active = `{"state":"active","cause":"","heuristic":""}`
	r := start(t, nil)
	r.curl("Begin", `{"id":"`+id1+`","branches":[{"participant":"bank"},{"participant":"stock"}]}`)
	r.curl("Begin", `{"id":"`+id2+`","branches":[{"participant":"bank"},{"participant":"stock"}]}`)
	r.runSteps([]step{
		{"Vote", `{"id":"` + id1 + `","votes":[{"branch":"b2","vote":"prepared"}],"client_completes":true}`, active},
		{"Vote", `{"id":"` + id1 + `","votes":[{"branch":"b2","vote":"prepared"}],"client_completes":true}`, active},
		{"Commit", `{"id":"` + id1 + `","votes":[{"branch":"b1","vote":"prepared"}]}`, `{"state":"committing","cause":"","heuristic":""}`},
		{"Vote", `{"id":"` + id1 + `","votes":[{"branch":"b2","vote":"prepared"}]}`, `{"state":"committing","cause":"","heuristic":""}`},
		{"Vote", `{"id":"` + id2 + `","votes":[{"branch":"b2","vote":"no"}],"reason":"no funds"}`, `{"state":"rolling-back","cause":"vote-no","heuristic":""}`},
		{"Vote", `{"id":"` + id2 + `","votes":[{"branch":"b2","vote":"no"}],"reason":"no funds"}`, `{"state":"rolling-back","cause":"vote-no","heuristic":""}`},
	})
	if a := r.curl("Get", begin(id2)); a.object(t)["reason"] != "no funds" {
		t.Errorf("%s", a.body)
	}
	if a := r.curl("Vote", `{"id":"`+id2+`","votes":[{"branch":"b1","vote":"prepared"}]}`); a.header.Get("Txmgr-Code") != "ROLLED_BACK" {
		t.Errorf("a yes after a no: %d %s", a.status, a.body)
	}
}

// A delegated decision can be made by the branch only.
func TestDelegationWithCurl(t *testing.T) {
	r := start(t, nil)
	r.curl("Begin", `{"id":"`+id1+`","branches":[{"participant":"bank"}]}`)
	const preparing = `{"state":"preparing","cause":"","heuristic":""}`
	delegate := `{"id":"` + id1 + `","branch":"b1"}`
	r.runSteps([]step{{"Delegate", delegate, preparing}, {"Delegate", delegate, preparing}})
	for method, body := range map[string]string{
		"Commit": begin(id1), "Rollback": begin(id1), "Vote": begin(id1), "Extend": `{"id":"` + id1 + `","timeout":"1m"}`,
		"Enlist": `{"id":"` + id1 + `","participant":"stock"}`, "InDoubtService/Resolve": `{"id":"` + id1 + `","outcome":"rolled-back","reason":"x"}`,
	} {
		if a := r.curl(method, body); a.header.Get("Txmgr-Code") != "CONFLICT" || !strings.Contains(a.body, "delegated to b1") {
			t.Errorf("%s: %d %s", method, a.status, a.body)
		}
	}
	if a := r.curl("Get", begin(id1)); !strings.Contains(a.body, `"vote":"delegated"`) {
		t.Errorf("%s", a.body)
	}
	r.runSteps([]step{{"ReportCompletion", `{"id":"` + id1 + `","reports":[{"branch":"b1","state":"committed"}]}`, `{}`}})
	if a := r.curl("Get", begin(id1)); a.object(t)["state"] != "committed" {
		t.Errorf("%s", a.body)
	}
}

// What an operator does about a branch that its participant has lost, byte for byte.
func TestInDoubtWithCurl(t *testing.T) {
	const (
		xid   = "txm_fake_01k9x3v7h2m8qf4r6t0bz5n1de_b1"
		facts = `"reason":"","heuristic":"unknown","timeout":"30s","began":"2026-01-02T03:04:05Z","decided":"2026-01-02T03:04:05Z","decided_index":2,` +
			`"expires_in":"","survival_index":301,"remaining_invocations":0,"expiry_tick":301,"labels":{},` +
			`"branches":[{"id":"b1","participant":"bank","kind":"postgres","xid":"` + xid + `","vote":"prepared","state":"heuristic",` +
			`"heuristic":"unknown","detail":"bank does not know it","attempts":0,"last_error":"","next_try_in":""}]`
		lost   = `{"id":"` + id1 + `","name":"","state":"committed","cause":"",` + facts
		record = `{"seq":1,"time":"2026-01-02T03:04:05Z","tick":0,"index":4,"action":"resolve","id":"` + id1 + `","branch":"b1","subject":"rolled-back","by":"ann","reason":"she looked"}`
		forgot = `{"seq":2,"time":"2026-01-02T03:04:05Z","tick":0,"index":4,"action":"forget","id":"` + id1 + `","subject":"hazard rolled-back","by":"bob","reason":"paid back"}`
		added  = `{"seq":3,"time":"2026-01-02T03:04:05Z","tick":0,"index":4,"action":"participant-add","subject":"web","by":"","reason":""}`
	)
	r := start(t, nil)
	r.curl("Begin", `{"id":"`+id1+`","branches":[{"participant":"bank"}]}`)
	r.runSteps([]step{
		{"InDoubtService/List", `{}`, `{"transactions":[]}`},
		{"Commit", `{"id":"` + id1 + `","votes":[{"branch":"b1","vote":"prepared"}]}`, `{"state":"committing","cause":"","heuristic":""}`},
		{
			"InDoubtService/Scan", `{}`,
			`{"results":[{"participant":"bank","xid":"` + xid + `","id":"` + id1 + `","branch":"b1","since":"2026-01-02T03:04:05Z","owner":"app",` +
				`"state":"committing","locks":["table bank"],"waiters":[],"class":"commit","done":false,"error":""}]}`,
		},
	})
	id, err := txn.ParseID(id1)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.fake.LoseBranch(id, 1); err != nil {
		t.Fatal(err)
	}
	r.runSteps([]step{
		{"InDoubtService/List", `{}`, `{"transactions":[` + lost + `,"since":"2026-01-02T03:04:05Z","why":"heuristic: unknown"}]}`},
		{"InDoubtService/Retry", begin(id1), `{}`},
		{"InDoubtService/Retry", `{}`, `{}`},
		{
			"InDoubtService/Explain", begin(id1),
			`{"transaction":` + lost + `},"summary":["is committed","decided by entry 2"],` +
				`"branches":[{"branch":"b1","participant":"bank","prepared":false,"outcome":"unknown","detail":"bank does not know it","locks":[],"waiters":[],"attempts":[]}],` +
				`"actions":[{"name":"retry","allowed":false,"why":"is committed"},` +
				`{"name":"commit","allowed":true,"why":"is committed"},{"name":"rollback","allowed":true,"why":"is committed"},` +
				`{"name":"forget","allowed":true,"why":"is committed"}],"audit":[]}`,
		},
		{
			"InDoubtService/Resolve", `{"id":"` + id1 + `","branch":"b1","outcome":"rolled-back","reason":"she looked","by":"ann"}`,
			`{"state":"committed","cause":"","heuristic":"rolled-back"}`,
		},
		{"InDoubtService/Forget", `{"id":"` + id1 + `","by":"bob","reason":"paid back"}`, `{"state":"committed","cause":"","heuristic":""}`},
		{"InDoubtService/Forget", `{"id":"` + id1 + `","by":"bob","reason":"paid back"}`, `{"state":"committed","cause":"","heuristic":""}`},
		{"ParticipantService/Add", `{"name":"web","kind":"web"}`, `{}`},
		{"InDoubtService/Audit", `{}`, `{"records":[` + record + `,` + forgot + `,` + added + `]}`},
		{"InDoubtService/Audit", `{"id":"` + id1 + `","since":"1h","limit":1}`, `{"records":[` + forgot + `]}`},
		{"ClusterService/Doctor", `{"participant":"bank"}`, `{"checks":[{"participant":"bank","level":"ok","subject":"kind","message":"postgres","remedy":""}]}`},
	})
	if a := r.get("/metrics"); !strings.Contains(a.body, `txmgr_rpc_duration_seconds_count{code="OK",method="InDoubtService.Resolve"} 1`) {
		t.Error("the call is not in the metrics")
	}
}

// An operator may resolve an undecided transaction to rolled back only.
func TestResolveUndecidedWithCurl(t *testing.T) {
	r := start(t, nil)
	r.curl("Begin", begin(id3))
	if a := r.curl("InDoubtService/Resolve", `{"id":"`+id3+`","outcome":"committed","reason":"x"}`); a.header.Get("Txmgr-Code") != "CONFLICT" {
		t.Errorf("%d %s", a.status, a.body)
	}
	r.runSteps([]step{{
		"InDoubtService/Resolve", `{"id":"` + id3 + `","outcome":"rolled-back","reason":"x","by":"ann"}`, `{"state":"rolled-back","cause":"operator","heuristic":""}`,
	}})
	if a := r.curl("InDoubtService/Resolve", `{"id":"`+id3+`","outcome":"rolled-back","reason":"x"}`); a.header.Get("Txmgr-Code") != "CONFLICT" || !strings.Contains(a.body, "not in doubt") {
		t.Errorf("nothing is left to say: %d %s", a.status, a.body)
	}
}

// An operator's statement is refused before it reaches the coordinator if it is unclear, or
// if the audit log could not keep it.
func TestUnclearWordsWithCurl(t *testing.T) {
	r := start(t, nil)
	r.curl("Begin", begin(id1))
	word := func(more string) string { return `{"id":"` + id1 + `",` + more + `}` }
	long, longer := strings.Repeat("x", 129), strings.Repeat("x", 513)
	for _, c := range []struct{ method, body, says string }{
		{"InDoubtService/Resolve", word(`"reason":"x"`), "want committed or rolled-back"},
		{"InDoubtService/Resolve", word(`"outcome":"commit","reason":"x"`), "want committed or rolled-back"},
		{"InDoubtService/Resolve", word(`"outcome":"unknown","reason":"x"`), "want committed or rolled-back"},
		{"InDoubtService/Resolve", word(`"outcome":"rolled-back"`), "reason is missing"},
		{"InDoubtService/Resolve", word(`"outcome":"rolled-back","reason":"` + longer + `"`), "513 bytes; at most 512"},
		{"InDoubtService/Resolve", word(`"outcome":"rolled-back","reason":"x","by":"` + long + `"`), "129 bytes; at most 128"},
		{"InDoubtService/Resolve", word(`"outcome":"rolled-back","reason":"x","branch":"1"`), "branch id"},
		{"InDoubtService/Resolve", `{"outcome":"rolled-back","reason":"x"}`, "transaction id"},
		{"InDoubtService/Forget", word(`"by":"ann"`), "reason is missing"},
		{"InDoubtService/Forget", word(`"reason":"` + longer + `"`), "513 bytes; at most 512"},
		{"InDoubtService/Forget", `{"reason":"x"}`, "transaction id"},
		{"InDoubtService/Explain", `{}`, "transaction id"},
		{"InDoubtService/Retry", `{"id":"x"}`, "transaction id"},
		{"InDoubtService/Audit", `{"limit":-1}`, "negative"},
		{"InDoubtService/Audit", `{"since":"yesterday"}`, "since"},
		{"InDoubtService/Audit", `{"id":"x"}`, "transaction id"},
		{"Vote", `{"id":"x"}`, "transaction id"},
		{"Vote", word(`"votes":[{"branch":"b1","vote":"maybe"}]`), "unknown vote"},
		{"Delegate", `{"id":"x"}`, "transaction id"},
	} {
		if a := r.curl(c.method, c.body); a.status != http.StatusBadRequest || a.header.Get("Txmgr-Code") != "USAGE" || !strings.Contains(a.body, c.says) {
			t.Errorf("%s %.80s: %d %s", c.method, c.body, a.status, a.body)
		}
	}
	if a := r.curl("Get", begin(id1)); a.object(t)["state"] != "active" {
		t.Errorf("something was done: %s", a.body)
	}
	if a := r.curl("ClusterService/Doctor", `{"participant":"nobody"}`); a.status != http.StatusNotFound {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// Reads can be made with a plain GET; changes cannot.
func TestInDoubtWithGet(t *testing.T) {
	r := start(t, nil)
	r.curl("Begin", begin(id1))
	for path, want := range map[string]int{
		"InDoubtService/List": 200, "InDoubtService/Explain": 200, "InDoubtService/Audit": 200, "ClusterService/Doctor": 200,
		"InDoubtService/Retry": 405, "InDoubtService/Resolve": 405, "InDoubtService/Forget": 405, "InDoubtService/Scan": 405,
		"TransactionService/Vote": 405, "TransactionService/Delegate": 405,
	} {
		message := `{}`
		if path == "InDoubtService/Explain" {
			message = begin(id1)
		}
		if a := r.get("/txmgr.v1." + path + "?encoding=json&message=" + url.QueryEscape(message)); a.status != want {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}
