package server_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/txn/admin"
)

// A whole transaction in curl, byte for byte.
func TestWalkthroughWithCurl(t *testing.T) {
	r := start(t, nil)
	const xid = "txm_fake_01k9x3v7h2m8qf4r6t0bz5n1de_b"
	branch := func(n, participant, kind, vote, state string) string {
		return `{"id":"b` + n + `","participant":"` + participant + `","kind":"` + kind + `","xid":"` + xid + n + `","vote":"` + vote + `","state":"` + state +
			`","attempts":0,"last_error":"","next_try_in":""}`
	}
	info := func(state, left, branches string) string {
		return `{"id":"` + id1 + `","name":"transfer","state":"` + state + `","cause":"","reason":"","heuristic":"","timeout":"1m0s","began":"2026-01-02T03:04:05Z",` +
			left + `"expiry_tick":601,"labels":{"shop":"7"},"branches":[` + branches + `]}`
	}
	const open, over = `"expires_in":"1m0s","survival_index":601,"remaining_invocations":601,`, `"decided":"2026-01-02T03:04:05Z","decided_index":2,"expires_in":"","survival_index":601,"remaining_invocations":0,`
	for _, step := range []struct{ method, body, want string }{
		{
			"Begin", `{"id":"` + id1 + `","name":"transfer","timeout":"1m","labels":{"shop":"7"},"branches":[{"participant":"bank"}]}`,
			`{"id":"` + id1 + `","timeout":"1m0s","survival_index":601,"expiry_tick":601,"branches":[{"id":"b1","participant":"bank","xid":"` + xid + `1"}],"mark":"42","appoints":true}`,
		},
		{"Enlist", `{"id":"` + id1 + `","participant":"stock","payload":"AAE="}`, `{"id":"b2","participant":"stock","xid":"` + xid + `2"}`},
		{"Extend", `{"id":"` + id1 + `","timeout":"30s"}`, `{"state":"active","cause":"","heuristic":""}`},
		{"Get", `{"id":"` + id1 + `"}`, info("active", open, branch("1", "bank", "postgres", "none", "enlisted")+","+branch("2", "stock", "ledger", "none", "enlisted"))},
		{"List", `{"states":["active"],"prefix":"tx_01k9","older_than":"1s"}`, `{"transactions":[` + info("active", open, branch("1", "bank", "postgres", "none", "enlisted")+","+branch("2", "stock", "ledger", "none", "enlisted")) + `]}`},
		{"List", `{"states":["committed"]}`, `{"transactions":[]}`},
		{"Commit", `{"id":"` + id1 + `","votes":[{"branch":"b1","vote":"prepared"},{"branch":"b2","vote":"read-only"}],"client_completes":true}`, `{"state":"committing","cause":"","heuristic":""}`},
		{"Wait", `{"id":"` + id1 + `","goal":"decided","timeout":"5s"}`, info("committing", over, branch("1", "bank", "postgres", "prepared", "prepared")+","+branch("2", "stock", "ledger", "read-only", "prepared"))},
		{"ReportCompletion", `{"id":"` + id1 + `","reports":[{"branch":"b1","state":"committed"},{"branch":"b2","state":"committed"}]}`, `{}`},
		{"Get", `{"id":"` + id1 + `"}`, info("committed", over, branch("1", "bank", "postgres", "prepared", "committed")+","+branch("2", "stock", "ledger", "read-only", "committed"))},
		{"TimeoutService/Groups", `{}`, `{"tick":0,"interval":"100ms","groups":[],"next":0}`},
		{"Begin", `{"id":"tx_01k9x3v7h2m8qf4r6t0bz5n1df"}`, `{"id":"tx_01k9x3v7h2m8qf4r6t0bz5n1df","timeout":"30s","survival_index":301,"expiry_tick":301,"branches":[],"mark":"42","appoints":true}`},
		{"Begin", `{"id":"tx_01k9x3v7h2m8qf4r6t0bz5n1dg","timeout":"40s"}`, `{"id":"tx_01k9x3v7h2m8qf4r6t0bz5n1dg","timeout":"40s","survival_index":401,"expiry_tick":401,"branches":[],"mark":"42","appoints":true}`},
		{"TimeoutService/Groups", `{"limit":1}`, `{"tick":0,"interval":"100ms","groups":[{"expiry_tick":301,"remaining_invocations":301,"expires_in":"30.1s","transactions":1}],"next":401}`},
		{"TimeoutService/Groups", `{"from":401}`, `{"tick":0,"interval":"100ms","groups":[{"expiry_tick":401,"remaining_invocations":401,"expires_in":"40.1s","transactions":1}],"next":0}`},
		{"Rollback", `{"id":"tx_01k9x3v7h2m8qf4r6t0bz5n1dg"}`, `{"state":"rolled-back","cause":"client","heuristic":""}`},
		{"Rollback", `{"id":"tx_01k9x3v7h2m8qf4r6t0bz5n1df","reason":"changed my mind"}`, `{"state":"rolled-back","cause":"client","heuristic":""}`},
		{"ParticipantService/Add", `{"name":"shop","kind":"web","settings":{"url":"http://127.0.0.1:1/"},"coordinator_prepares":true}`, `{}`},
		{"ParticipantService/Test", `{"name":"shop"}`, `{}`},
		{"ParticipantService/Remove", `{"name":"bank"}`, `{}`},
		{"ParticipantService/Remove", `{"name":"stock"}`, `{}`},
		{"ParticipantService/List", `{}`, `{"participants":[{"name":"shop","kind":"web","settings":{"url":"http://127.0.0.1:1/"},"coordinator_prepares":true,"healthy":true,"last_error":"","next_try_in":"","queued":0,"running":0,"probe_took":"","limit":4,"throughput":0,"mean":"","p99":"","raised":1,"lowered":0,"optimizer":""}]}`},
		{"ParticipantService/Pools", `{"participant":"shop"}`, `{"pools":[{"participant":"shop","limit":4,"running":0,"queued":0,"throughput":12.5,"mean":"","p99":"","raised":1,"lowered":0,"decisions":[{"at":"2026-01-02T03:04:05Z","from":2,"to":4,"why":"4 completes more than 2","rate":12.5,"busy":0,"bound":0,"mean":"","p99":"","queued":0}],"optimizer":""}]}`},
		{"InDoubtService/Scan", `{"apply":true}`, `{"results":[]}`},
		{"ClusterService/Status", `{}`, `{"cluster":"fake","node":"n1","leader":true,"leader_id":"n1","version":"test","term":3,"log_index":0,"tick":0,"interval":"100ms","uptime":"",` +
			`"undecided":0,"delegated":0,"completing":0,"finished":0,"heuristics":0,"committed":1,"rolled_back":2,"timed_out":0,"rolled_back_by":{"client":2},"sessions":0,"sessions_expired":0,"commands":0,"entries":0,"tick_entries":0,"syncs":0,"log_bytes":0,"incarnation":0,"recovery_paused":false,` +
			`"members":[{"id":"n1","name":"one","raft_addr":"127.0.0.1:7461","api":"http://127.0.0.1:7460","version":"test","voter":true,"leader":true,"self":true,"last_contact":"1ms","log_lag":0}],` +
			`"participants":[{"name":"shop","kind":"web","settings":{"url":"http://127.0.0.1:1/"},"coordinator_prepares":true,"healthy":true,"last_error":"","next_try_in":"","queued":0,"running":0,"probe_took":"","limit":4,"throughput":0,"mean":"","p99":"","raised":1,"lowered":0,"optimizer":""}]}`},
	} {
		a := r.curl(step.method, step.body)
		if diff := cmp.Diff(step.want, a.body); diff != "" || a.status != http.StatusOK || a.header.Get("Content-Type") != "application/json" {
			t.Fatalf("%s: %d %v\n%s", step.method, a.status, a.header, diff)
		}
	}
}

// Reads can be made with a plain GET, and with a charset.
func TestReadingWithGet(t *testing.T) {
	r := start(t, nil)
	r.curl("Begin", begin(id1))
	a := r.get("/txmgr.v1.TransactionService/Get?encoding=json&message=" + url.QueryEscape(begin(id1)))
	if a.status != http.StatusOK || a.object(t)["id"] != id1 || a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
	if a := r.get("/txmgr.v1.TransactionService/Commit?encoding=json&message=" + url.QueryEscape(begin(id1))); a.status != http.StatusMethodNotAllowed {
		t.Errorf("a commit by GET: %d %s", a.status, a.body)
	}
	if a := r.post("Get", "application/json; charset=utf-8", strings.NewReader(begin(id1))); a.status != http.StatusOK || a.object(t)["state"] != "active" {
		t.Errorf("with a charset: %d %s", a.status, a.body)
	}
}

// Invariant 3: every failure says what, where and what next, in a form that a
// shell can read (status, headers) and one that a program can (the detail).
func TestFailuresWithCurl(t *testing.T) {
	r := start(t, nil)
	r.curl("Begin", `{"id":"`+id1+`","branches":[{"participant":"bank"}]}`)
	const gone = "tx_01k9x3v7h2m8qf4r6t0bz5n1d0"
	for _, c := range []struct {
		name, method, body string
		status             int
		code, txcode       string
		says               []string
	}{
		{"unknown transaction", "Get", begin(gone), 404, "not_found", "NOT_FOUND", []string{"get " + gone, "check the name"}},
		{"no vote", "Commit", begin(id1), 400, "failed_precondition", "CONFLICT", []string{"no vote of bank", `"state":"active"`, "Get returns the state"}},
		{"voted no", "Commit", `{"id":"` + id1 + `","votes":[{"branch":"b1","vote":"no"}]}`, 409, "aborted", "ROLLED_BACK", []string{"bank voted no", `"cause":"vote-no"`, `"kinds":["rolled-back"`}},
		{"decided", "Enlist", `{"id":"` + id1 + `","participant":"stock"}`, 400, "failed_precondition", "CONFLICT", []string{`"not-active"`, `"state":"rolling-back"`}},
		{"other options", "Begin", `{"id":"` + id1 + `","name":"x"}`, 400, "failed_precondition", "CONFLICT", []string{"other options"}},
		{"malformed id", "Commit", `{"id":"1"}`, 400, "invalid_argument", "USAGE", []string{"transaction id", `"op":"commit"`}},
		{"malformed branch", "Commit", `{"id":"` + id1 + `","votes":[{"branch":"1","vote":"no"}]}`, 400, "invalid_argument", "USAGE", []string{"branch id"}},
		{"malformed vote", "Commit", `{"id":"` + id1 + `","votes":[{"branch":"b1","vote":"yes"}]}`, 400, "invalid_argument", "USAGE", []string{"unknown vote"}},
		{"a vote to give", "Vote", `{"id":"` + id1 + `","votes":[{"branch":"b1","vote":"delegated"}]}`, 400, "invalid_argument", "USAGE", []string{"call Delegate"}},
		{"malformed branch to delegate to", "Delegate", `{"id":"` + id1 + `"}`, 400, "invalid_argument", "USAGE", []string{"branch id"}},
		{"malformed timeout", "Begin", `{"timeout":"30"}`, 400, "invalid_argument", "USAGE", []string{"unit"}},
		{"timeout of zero", "Begin", `{"timeout":"0s"}`, 400, "invalid_argument", "USAGE", []string{"more than zero"}},
		{"no timeout", "Extend", begin(id1), 400, "invalid_argument", "USAGE", []string{"timeout is missing"}},
		{"malformed report", "ReportCompletion", `{"id":"` + id1 + `","reports":[{"branch":"b1","state":"done"}]}`, 400, "invalid_argument", "USAGE", []string{"unknown branch state"}},
		{"malformed goal", "Wait", `{"id":"` + id1 + `","goal":"peace"}`, 400, "invalid_argument", "USAGE", []string{"finished or decided"}},
		{"wait ended", "Wait", `{"id":"` + id1 + `","timeout":"1ms"}`, 504, "deadline_exceeded", "TIMED_OUT", []string{"wait"}},
		{"malformed filter", "List", `{"states":["x"]}`, 400, "invalid_argument", "USAGE", []string{"unknown state"}},
		{"pool of an unknown participant", "ParticipantService/Pools", `{"participant":"x"}`, 404, "not_found", "NOT_FOUND", []string{"pools"}},
		{"unknown participant", "ParticipantService/Test", `{"name":"x"}`, 404, "not_found", "NOT_FOUND", []string{"test participant"}},
		{"malformed participant", "ParticipantService/Add", `{"name":"X","kind":"web"}`, 400, "invalid_argument", "USAGE", []string{"lower-case"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := r.curl(c.method, c.body)
			if a.status != c.status || a.object(t)["code"] != c.code || a.header.Get("Txmgr-Code") != c.txcode {
				t.Errorf("%d %v: %s", a.status, a.header, a.body)
			}
			for _, s := range append(c.says, `"type":"txmgr.v1.Failure"`, `"code":"`+c.txcode+`"`) {
				if !strings.Contains(strings.ReplaceAll(a.body, " ", ""), strings.ReplaceAll(s, " ", "")) {
					t.Errorf("does not say %s: %s", s, a.body)
				}
			}
		})
	}
	if a := r.curl("Commit", begin(id1)); a.header.Get("Txmgr-State") != "rolling-back" {
		t.Errorf("state header: %v", a.header)
	}
}

// Invalid bodies of every kind are refused with a reason.
func TestMalformedBodies(t *testing.T) {
	r := start(t, nil)
	for _, c := range []struct {
		name, contentType, body string
		status                  int
		says                    []string
	}{
		{"not JSON", "application/json", `{"timeout":`, 400, []string{"unmarshal", "BeginRequest"}},
		{"unknown field", "application/json", `{"timeot":"30s"}`, 400, []string{"timeot", "id, name, timeout, labels, branches"}},
		{"nothing", "application/json", ``, 400, []string{"at least {}"}},
		{"not protobuf", "application/proto", "\x0a\xff", 400, []string{"unmarshal"}},
		{"bad UTF-8", "application/proto", "\x12\x01\xff", 400, []string{"UTF-8"}},
		{"unknown compression", "application/json", "br", 501, []string{"gzip"}},
		{"another type", "text/plain", `{}`, 415, nil},
		{"too long", "application/json", `{"name":"` + strings.Repeat("x", 2<<20) + `"}`, 400, []string{"2097163 bytes; at most 1048576"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			req, err := http.NewRequest(http.MethodPost, r.base+"/txmgr.v1.TransactionService/Begin", strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", c.contentType)
			if c.body == "br" {
				req.Header.Set("Content-Encoding", "br")
			}
			a := r.do(req)
			if a.status != c.status || a.header.Get("Txmgr-Code") != "USAGE" {
				t.Errorf("%d %v: %.300s", a.status, a.header, a.body)
			}
			if c.says != nil {
				c.says = append(c.says, `"type":"txmgr.v1.Failure"`, `"code":"USAGE"`, `"op":"begin"`, `"kinds":["invalid"]`)
			}
			for _, s := range c.says {
				if !strings.Contains(strings.ReplaceAll(a.body, ": ", ":"), strings.ReplaceAll(s, ": ", ":")) {
					t.Errorf("does not say %q: %.600s", s, a.body)
				}
			}
		})
	}
	t.Run("too long, of unknown length", func(t *testing.T) {
		// A reader that is not a strings.Reader makes the transport send chunks.
		body := struct{ *strings.Reader }{strings.NewReader(`{"name":"` + strings.Repeat("x", 2<<20) + `"}`)}
		a := r.post("Begin", "application/json", struct{ readOnly }{readOnly{body}})
		if a.status != http.StatusTooManyRequests || a.header.Get("Txmgr-Code") != "USAGE" || !strings.Contains(a.body, "1048") {
			t.Errorf("%d %v: %.300s", a.status, a.header, a.body)
		}
	})
	if got := len(must(r.fake.List(context.Background(), admin.Filter{}))); got != 0 {
		t.Errorf("%d transactions were begun", got)
	}
	eventually(t, "log of what was not decoded", func() bool { return strings.Contains(r.log.String(), "not decoded") })
	eventually(t, "log of why", func() bool { return strings.Contains(r.log.String(), `unknown field \"timeot\"`) })
}

type readOnly struct {
	r interface{ Read([]byte) (int, error) }
}

func (r readOnly) Read(p []byte) (int, error) { return r.r.Read(p) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestNothingElseIsServed(t *testing.T) {
	r := start(t, nil)
	if a := r.get("/"); a.status != http.StatusNotFound || !strings.Contains(a.body, "/txmgr.v1.TransactionService/Begin") {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := r.curl("Destroy", `{}`); a.status != http.StatusNotFound || a.header.Get("Txmgr-Code") != "NOT_FOUND" {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// A web page of another origin cannot call the API through a user's browser.
func TestOtherOriginsAreRefused(t *testing.T) {
	r := start(t, nil)
	req, err := http.NewRequest(http.MethodPost, r.base+"/txmgr.v1.TransactionService/Begin", strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Origin", "http://evil.example")
	req.Header.Set("Sec-Fetch-Site", "cross-site")
	if a := r.do(req); a.status != http.StatusForbidden {
		t.Errorf("%d %s", a.status, a.body)
	}
}
