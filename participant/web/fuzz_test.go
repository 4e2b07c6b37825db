package web

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// FuzzAnswer: no response is taken for more than it says.
func FuzzAnswer(f *testing.F) {
	f.Add(200, "prepared", "committed", "5", "fine")
	f.Add(409, "no", "rolled-back", "Fri, 02 Jan 2026 03:04:15 GMT", "\xff\x00")
	f.Add(202, "read-only", "", "99999999999999999999", strings.Repeat("é", 300))
	f.Fuzz(func(t *testing.T, status int, vote, outcome, retry, body string) {
		a := response{status: status, header: http.Header{}, body: []byte(body)}
		a.header.Set(HeaderVote, vote)
		a.header.Set(HeaderOutcome, outcome)
		a.header.Set("Retry-After", retry)
		success := status >= 200 && status <= 299 && status != 202
		v, reason, err := a.vote()
		if (v == txn.VotePrepared || v == txn.VoteReadOnly) && !success || (v == 0) == (err == nil) || (v == txn.VoteNo || v == txn.VoteEndedByApplication) && status != 409 && status != 422 {
			t.Errorf("vote %v, %v", v, err)
		}
		if v != 0 && strings.TrimSpace(vote) == "" {
			t.Errorf("vote %v by status %d alone", v, status)
		}
		if len(reason) > maxReason || !utf8.ValidString(reason) || strings.ContainsAny(reason, "\r\n\x00") {
			t.Errorf("reason %q", reason)
		}
		c, err := a.commit(participant.Branch{})
		if c.Outcome == participant.Committed && !success || c.Outcome == participant.RolledBack && status != 409 || (c.Outcome == 0) == (err == nil) {
			t.Errorf("commit %v, %v", c, err)
		}
		r, err := a.rollback(participant.Branch{})
		if r.Outcome == participant.RolledBack && !success && status != 404 && status != 410 || r.Outcome == participant.Unknown || (r.Outcome == 0) == (err == nil) {
			t.Errorf("rollback %v, %v", r, err)
		}
		if (c.Outcome != 0 || r.Outcome != 0) && strings.TrimSpace(outcome) == "" {
			t.Errorf("commit %v, rollback %v by status %d alone", c, r, status)
		}
	})
}

func FuzzList(f *testing.F) {
	f.Add([]byte(`{"branches":[{"xid":"a","state":"prepared","since":"2026-01-02T03:04:05Z"}],"next":"a"}`))
	f.Add([]byte(`{"branches":null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		p, err := parsePage(body)
		if err != nil {
			return
		}
		if p.Branches == nil || len(p.Branches) > listPage {
			t.Errorf("%d branches", len(p.Branches))
		}
		for _, l := range p.Branches {
			if _, err := json.Marshal(l); err != nil {
				continue // a year that JSON cannot represent
			}
			l.report(participant.Branch{})
		}
	})
}

func FuzzSignature(f *testing.F) {
	r, _ := signedRequest(someSecret, someTime)
	f.Add(r.Header.Get(HeaderSignature))
	f.Add("t=,v1=")
	f.Fuzz(func(t *testing.T, text string) {
		stamp, signature, err := parseSignature(text)
		if err != nil {
			return
		}
		again := "t=" + stamp + ",v1=" + strings.ToLower(hexText(signature))
		if again != text {
			t.Errorf("%q is also %q", text, again)
		}
		r, body := signedRequest(someSecret, someTime)
		right := r.Header.Get(HeaderSignature)
		r.Header.Set(HeaderSignature, text)
		if verify([][]byte{someSecret}, r, body, someTime, time.Minute) == nil && text != right {
			t.Errorf("%q passes for %q", text, right)
		}
	})
}

// FuzzHandler: no request makes a handler fail otherwise than by refusing, and what
// reaches a callback is a branch.
func FuzzHandler(f *testing.F) {
	b := newBranch()
	f.Add("prepare", b.TX.String(), "b1", b.XID, "5000", "1", []byte("{}"))
	f.Add("commit", b.TX.String(), "b0", "txm__x", "-5", "x", []byte(nil))
	h := Handler(stubStore{}, Callbacks[int]{}, Options{MaxBody: 100})
	f.Fuzz(func(t *testing.T, phase, tx, branch, xid, deadline, attempt string, body []byte) {
		r := httptest.NewRequest(http.MethodPost, "/txmgr", bytes.NewReader(body))
		for name, value := range map[string]string{
			HeaderPhase: phase, HeaderTransaction: tx, HeaderBranch: branch, HeaderXID: xid, HeaderDeadline: deadline, HeaderAttempt: attempt,
		} {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		_, id, number, ok := txn.ParseXID(xid)
		sound := ok && id.String() == strings.ToLower(tx) && number.String() == branch
		if w.Code < 300 && !sound || w.Code == 500 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if d, err := parseDeadline(deadline); err == nil && d < 0 {
			t.Errorf("deadline %q is %v", deadline, d)
		}
	})
}

func FuzzAllow(f *testing.F) {
	f.Add("mail.example,10.0.0.0/8,[::1]:80,a:1", "mail.example", "10.1.2.3:80")
	f.Add("::ffff:1.2.3.4", "169.254.169.254", "[::ffff:a9fe:a9fe]:80")
	f.Fuzz(func(t *testing.T, allow, host, resolved string) {
		a, err := parseAllow(allow)
		if err == nil && a.empty() {
			t.Errorf("%q allows everything", allow)
		}
		_ = a.checkAddr(host, "80", resolved)
		if err := (allowList{}).checkAddr(host, "80", "169.254.169.254:80"); err == nil {
			t.Errorf("host %q may be the metadata service", host)
		}
	})
}

func hexText(b []byte) string {
	const digits = "0123456789abcdef"
	var s strings.Builder
	for _, c := range b {
		s.WriteByte(digits[c>>4])
		s.WriteByte(digits[c&15])
	}
	return s.String()
}

// stubStore is a store that keeps no rows.
type stubStore struct{}

func (stubStore) Do(ctx context.Context, xid string, step func(context.Context, int, string, string) (string, string, error)) error {
	_, _, err := step(ctx, 0, "", "")
	return err
}

func (stubStore) List(context.Context, string, string, string, int, func(string, string, time.Time) error) error {
	return nil
}

func (stubStore) Prune(context.Context, string, time.Time) (int, error) { return 0, nil }
