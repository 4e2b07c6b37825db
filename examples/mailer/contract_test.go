package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/web"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// secret signs the requests of the tests.
const secret = "a-secret-of-the-contract-tests"

// goodMail and badMail are payloads.
const (
	goodMail = `{"to":"alice@example.org","subject":"Hello","body":"How are you?"}`
	badMail  = `{"to":"nobody at all"}`
)

// exchange is one line of the contract: a request and its answer.
type exchange struct {
	phase  string
	branch string // a name; the same name is the same branch
	// change turns the request into one that a coordinator does not send; it is signed later.
	change func(*http.Request)
	body   string // goodMail if empty
	status int
	vote   string
	// outcome is the header of that name.
	outcome string
	counts  string // after it: free/held/sent; empty: not checked
	// restart kills the service before the request, and restarts it.
	restart bool
}

// contract is the contract of a service in docs/reference/web.md, for any language, with a quota of
// five mails.
var contract = []exchange{
	{phase: "prepare", branch: "a", status: 200, vote: "prepared", counts: "4/1/0"},
	{phase: "prepare", branch: "a", status: 200, vote: "prepared", counts: "4/1/0", restart: true},
	{phase: "commit", branch: "a", status: 200, outcome: "committed", counts: "4/0/1", restart: true},
	{phase: "commit", branch: "a", status: 200, outcome: "committed", counts: "4/0/1", restart: true},
	{phase: "prepare", branch: "a", status: 200, vote: "prepared", counts: "4/0/1"},
	{phase: "rollback", branch: "a", status: 409, outcome: "committed", counts: "4/0/1"},

	{phase: "prepare", branch: "b", status: 200, vote: "prepared", counts: "3/1/1"},
	{phase: "rollback", branch: "b", status: 200, outcome: "rolled-back", counts: "4/0/1", restart: true},
	{phase: "rollback", branch: "b", status: 200, outcome: "rolled-back", counts: "4/0/1", restart: true},
	{phase: "prepare", branch: "b", status: 409, vote: "no", counts: "4/0/1"},
	{phase: "commit", branch: "b", status: 409, outcome: "rolled-back", counts: "4/0/1"},

	// A rollback without a prepare, and a prepare that comes late.
	{phase: "rollback", branch: "c", status: 200, outcome: "never-prepared", counts: "4/0/1"},
	{phase: "rollback", branch: "c", status: 200, outcome: "never-prepared", counts: "4/0/1", restart: true},
	{phase: "prepare", branch: "c", status: 409, vote: "no", counts: "4/0/1", restart: true},

	// A commit of a branch that was never prepared leaves nothing.
	{phase: "commit", branch: "d", status: 404, outcome: "unknown", counts: "4/0/1"},
	{phase: "commit", branch: "d", status: 404, outcome: "unknown", counts: "4/0/1", restart: true},
	{phase: "prepare", branch: "d", status: 200, vote: "prepared", counts: "3/1/1"},
	{phase: "rollback", branch: "d", status: 200, outcome: "rolled-back", counts: "4/0/1"},

	// A vote no is final, and needs no rollback.
	{phase: "prepare", branch: "e", body: badMail, status: 409, vote: "no", counts: "4/0/1"},
	{phase: "prepare", branch: "e", status: 409, vote: "no", counts: "4/0/1", restart: true},
	{phase: "rollback", branch: "e", status: 200, outcome: "rolled-back", counts: "4/0/1"},
	{phase: "commit", branch: "e", status: 409, outcome: "rolled-back", counts: "4/0/1"},

	// The quota limits the number of prepared branches.
	{phase: "prepare", branch: "f1", status: 200, vote: "prepared"},
	{phase: "prepare", branch: "f2", status: 200, vote: "prepared"},
	{phase: "prepare", branch: "f3", status: 200, vote: "prepared"},
	{phase: "prepare", branch: "f4", status: 200, vote: "prepared", counts: "0/4/1"},
	{phase: "prepare", branch: "g", status: 409, vote: "no", counts: "0/4/1"},
	{phase: "rollback", branch: "f1", status: 200, outcome: "rolled-back", counts: "1/3/1"},
	{phase: "prepare", branch: "g", status: 409, vote: "no", counts: "1/3/1"},
	{phase: "commit", branch: "f2", status: 200, outcome: "committed"},
	{phase: "commit", branch: "f3", status: 200, outcome: "committed"},
	{phase: "commit", branch: "f4", status: 200, outcome: "committed", counts: "1/0/4"},

	// A request that is not a coordinator's changes nothing.
	{phase: "abort", branch: "h", status: 400},
	{phase: "", branch: "h", status: 400},
	{phase: "prepare", branch: "h", change: func(r *http.Request) { r.URL.Path = "/txmgr/commit" }, status: 400},
	{phase: "prepare", branch: "h", change: header("Txmgr-Transaction-Id", "tx_00000000000000000000000000"), status: 400},
	{phase: "prepare", branch: "h", change: header("Txmgr-Branch-Id", "b2"), status: 400},
	{phase: "prepare", branch: "h", change: header("Txmgr-Xid", "x"), status: 400},
	{phase: "prepare", branch: "h", change: header("Idempotency-Key", `"x"`), status: 400},
	{phase: "prepare", branch: "h", change: header("Txmgr-Deadline", "-1"), status: 400},
	{phase: "prepare", branch: "h", change: header("Txmgr-Deadline", "0"), status: 503},
	{phase: "prepare", branch: "h", body: strings.Repeat("x", 64<<10+1), status: 413},
	{phase: "prepare", branch: "h", change: func(r *http.Request) { r.Method = "PUT" }, status: 405},
	{phase: "prepare", branch: "h", change: func(r *http.Request) { r.Method = "DELETE" }, status: 405},
	{phase: "commit", branch: "h", status: 404, outcome: "unknown", counts: "1/0/4"},
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

// TestContract tests all services with the same exchanges.
func TestContract(t *testing.T) {
	for name, start := range services {
		t.Run(name, func(t *testing.T) {
			s := start(t, 5)
			names := map[string]branch{}
			for i, x := range contract {
				if x.restart {
					s.kill(t)
					s.start(t)
				}
				b, known := names[x.branch]
				if !known {
					b = newBranch()
					names[x.branch] = b
				}
				x.check(t, i, s, b)
			}
			s.wantMails(t, names["a"], names["f2"], names["f3"], names["f4"])
		})
	}
}

func (x exchange) check(t *testing.T, line int, s *service, b branch) {
	t.Helper()
	r := s.request(t, x.phase, b, x.body)
	if x.change != nil {
		x.change(r)
	}
	sign(r, x.payload(), time.Now())
	status, h, body := send(t, r)
	where := fmt.Sprintf("line %d: %s %s", line, x.phase, x.branch)
	if status != x.status || h.Get("Txmgr-Vote") != x.vote || h.Get("Txmgr-Outcome") != x.outcome {
		t.Errorf("%s: %d, vote %q, outcome %q: %s; want %d, %q, %q", where, status, h.Get("Txmgr-Vote"), h.Get("Txmgr-Outcome"), body, x.status, x.vote, x.outcome)
	}
	if status == 409 && strings.TrimSpace(body) == "" {
		t.Errorf("%s: no reason", where)
	}
	if got := s.counts(t); x.counts != "" && got != x.counts {
		t.Errorf("%s: counts %s, want %s", where, got, x.counts)
	}
}

func (x exchange) payload() string {
	if x.body == "" {
		return goodMail
	}
	return x.body
}

// TestSignatures: a request without a signature, or with a wrong or old one, is not carried out.
func TestSignatures(t *testing.T) {
	for name, start := range services {
		t.Run(name, func(t *testing.T) {
			s := start(t, 5)
			b := newBranch()
			for name, change := range map[string]func(*http.Request){
				"none":      func(r *http.Request) { r.Header.Del("Txmgr-Signature") },
				"malformed": header("Txmgr-Signature", "t=1,v1=0"),
				"old":       func(r *http.Request) { sign(r, goodMail, time.Now().Add(-10*time.Minute)) },
				"future":    func(r *http.Request) { sign(r, goodMail, time.Now().Add(10*time.Minute)) },
				"body":      func(r *http.Request) { sign(r, badMail, time.Now()) },
				"phase":     func(r *http.Request) { r.URL.Path = "/txmgr/rollback"; r.Header.Set("Txmgr-Phase", "rollback") },
				"branch":    header("Txmgr-Branch-Id", "b2"),
				"deadline":  header("Txmgr-Deadline", "999999"),
				"twice":     func(r *http.Request) { r.Header.Add("Txmgr-Xid", "x") },
			} {
				r := s.request(t, "prepare", b, "")
				sign(r, goodMail, time.Now())
				change(r)
				if status, _, body := send(t, r); status != 401 {
					t.Errorf("%s: %d %s", name, status, body)
				}
			}
			r, err := http.NewRequest(http.MethodGet, s.url+"/prepared", nil)
			check(t, err)
			if status, _, body := send(t, r); status != 401 {
				t.Errorf("list: %d %s", status, body)
			}
			r, err = http.NewRequest(http.MethodOptions, s.url+"/prepare", nil)
			check(t, err)
			if status, _, body := send(t, r); status != 204 {
				t.Errorf("OPTIONS: %d %s", status, body)
			}
			if got := s.counts(t); got != "5/0/0" {
				t.Errorf("counts %s", got)
			}
		})
	}
}

// TestCopiesAtOnce: eight concurrent copies of each request.
func TestCopiesAtOnce(t *testing.T) {
	for name, start := range services {
		t.Run(name, func(t *testing.T) {
			s := start(t, 5)
			b := newBranch()
			for _, phase := range []string{"prepare", "commit"} {
				var wg sync.WaitGroup
				for range 8 {
					wg.Go(func() {
						r := s.request(t, phase, b, "")
						sign(r, goodMail, time.Now())
						if status, _, body := send(t, r); status != 200 {
							t.Errorf("%s: %d %s", phase, status, body)
						}
					})
				}
				wg.Wait()
			}
			if got := s.counts(t); got != "4/0/1" {
				t.Errorf("counts %s", got)
			}
			s.wantMails(t, b)
		})
	}
}

// TestCoordinatorSpeaksWithAll: a real coordinator with each service, and the list.
func TestCoordinatorSpeaksWithAll(t *testing.T) {
	t.Setenv("TXMGR_TEST_SECRET", secret)
	for name, start := range services {
		t.Run(name, func(t *testing.T) {
			s := start(t, 5)
			p, err := web.Driver(t.Context(), admin.Participant{
				Name: "mail", Kind: web.Kind, CoordinatorPrepares: true,
				Settings: map[string]string{"url": s.url, "list": "/prepared", "secret_env": "TXMGR_TEST_SECRET"},
			}, "test")
			check(t, err)
			defer func() { check(t, p.Close()) }()
			check(t, p.Check(t.Context()))
			want := map[string]bool{}
			var last participant.Branch
			for range 3 {
				b := newBranch()
				last = participant.Branch{TX: b.tx, ID: 1, XID: b.xid, Payload: []byte(goodMail), TimeLeft: time.Minute}
				vote, detail, err := p.(participant.Preparer).Prepare(t.Context(), last)
				if vote != txn.VotePrepared || err != nil {
					t.Fatalf("%v, %q, %v", vote, detail, err)
				}
				want[b.xid] = true
			}
			s.kill(t)
			if _, err := p.Commit(t.Context(), last); err == nil {
				t.Error("committed at a service that is not there")
			}
			s.start(t)
			list, err := p.Prepared(t.Context(), txn.ClusterPrefix("test"))
			check(t, err)
			got := map[string]bool{}
			for _, l := range list {
				got[l.XID] = true
				if age := time.Since(l.Since); age < -time.Second || age > 5*time.Minute {
					t.Errorf("since %v", l.Since)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("list (-want +got):\n%s", diff)
			}
			if list, err := p.Prepared(t.Context(), txn.ClusterPrefix("other")); len(list) != 0 || err != nil {
				t.Errorf("of another cluster: %v, %v", list, err)
			}
			result, err := p.Commit(t.Context(), last)
			if result.Outcome != participant.Committed || err != nil {
				t.Errorf("%v, %v", result, err)
			}
			report, err := p.(participant.Inspector).Inspect(t.Context(), last)
			if report.Outcome != participant.Committed || err != nil {
				t.Errorf("%+v, %v", report, err)
			}
			page := s.page(t, "prefix=txm_test_&limit=1")
			if len(page.Branches) != 1 || page.Next == "" {
				t.Fatalf("page %+v", page)
			}
			page = s.page(t, "prefix=txm_test_&limit=1&after="+page.Next)
			if len(page.Branches) != 1 || page.Next != "" {
				t.Errorf("page %+v", page)
			}
		})
	}
}

// branch is the names of a branch.
type branch struct {
	tx  txn.ID
	xid string
}

func newBranch() branch {
	var chance [9]byte
	next.Lock()
	next.n++
	copy(chance[:], fmt.Sprintf("%08d", next.n))
	next.Unlock()
	id := txn.NewID(time.Now(), chance)
	return branch{id, txn.XID("test", id, 1)}
}

var next struct {
	sync.Mutex
	n int
}

// request builds a request as a coordinator does.
func (s *service) request(t *testing.T, phase string, b branch, body string) *http.Request {
	t.Helper()
	if body == "" {
		body = goodMail
	}
	path := phase
	if path == "" {
		path = "prepare"
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/"+path, strings.NewReader(body))
	check(t, err)
	for name, value := range map[string]string{
		"Txmgr-Transaction-Id": b.tx.String(), "Txmgr-Branch-Id": "b1", "Txmgr-Xid": b.xid, "Txmgr-Phase": phase, "Txmgr-Attempt": "1",
		"Idempotency-Key": `"` + b.tx.String() + "/b1/" + phase + `"`, "Content-Type": "application/json",
	} {
		r.Header.Set(name, value)
	}
	if phase == "prepare" {
		r.Header.Set("Txmgr-Deadline", "30000")
	}
	return r
}

// sign signs a request as docs/reference/web.md says, independently of package web.
func sign(r *http.Request, body string, now time.Time) {
	t := strconv.FormatInt(now.Unix(), 10)
	lines := []string{r.Method, r.URL.RequestURI()}
	for _, name := range []string{"Txmgr-Transaction-Id", "Txmgr-Branch-Id", "Txmgr-Xid", "Txmgr-Phase", "Txmgr-Deadline"} {
		lines = append(lines, r.Header.Get(name))
	}
	sum := sha256.Sum256([]byte(body))
	lines = append(lines, t, hex.EncodeToString(sum[:]), "")
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte(strings.Join(lines, "\n")))
	r.Header.Set("Txmgr-Signature", "t="+t+",v1="+hex.EncodeToString(m.Sum(nil)))
}

// send sends one request on a connection of its own.
func send(t *testing.T, r *http.Request) (status int, h http.Header, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	r = r.WithContext(ctx)
	r.Close = true
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Error(err)
		return 0, http.Header{}, ""
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		t.Error(err)
	}
	check(t, resp.Body.Close())
	return resp.StatusCode, resp.Header, string(text)
}

// counts returns free/held/sent.
func (s *service) counts(t *testing.T) string {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, strings.TrimSuffix(s.url, "/txmgr")+"/counts", nil)
	check(t, err)
	_, _, body := send(t, r)
	var n map[string]int64
	check(t, json.Unmarshal([]byte(body), &n))
	return fmt.Sprintf("%d/%d/%d", n[free], n[held], n[sent])
}

// listPage is a page of the list.
type listPage struct {
	Branches []struct {
		XID   string    `json:"xid"`
		Since time.Time `json:"since"`
	} `json:"branches"`
	Next string `json:"next"`
}

func (s *service) page(t *testing.T, query string) (p listPage) {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, s.url+"/prepared?"+query, nil)
	check(t, err)
	r.Header.Set("Txmgr-Phase", "list")
	sign(r, "", time.Now())
	status, _, body := send(t, r)
	if err := json.Unmarshal([]byte(body), &p); status != 200 || err != nil {
		t.Errorf("%d %s, %v", status, body, err)
	}
	return p
}

// wantMails checks the outbox: it contains the mails of these branches, and no other.
func (s *service) wantMails(t *testing.T, branches ...branch) {
	t.Helper()
	want, got := map[string]bool{}, map[string]bool{}
	for _, b := range branches {
		want[b.xid+".eml"] = true
	}
	entries, err := os.ReadDir(s.outbox)
	check(t, err)
	for _, e := range entries {
		got[e.Name()] = true
		text, err := os.ReadFile(filepath.Join(s.outbox, e.Name()))
		check(t, err)
		if !bytes.Contains(text, []byte("alice@example.org")) || !bytes.HasSuffix(text, []byte("\r\n\r\nHow are you?\r\n")) {
			t.Errorf("%s: %q", e.Name(), text)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("outbox (-want +got):\n%s", diff)
	}
}

// TestLargeBodySentSlowly: a service that refuses a body does not reset the connection on which it
// still comes.
func TestLargeBodySentSlowly(t *testing.T) {
	for name, start := range services {
		t.Run(name, func(t *testing.T) {
			s := start(t, 5)
			c, err := net.Dial("tcp", s.address)
			check(t, err)
			defer func() { check(t, c.Close()) }()
			const pieces, piece = 256, 300
			_, err = fmt.Fprintf(c, "POST /txmgr/prepare HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n", s.address, pieces*piece)
			check(t, err)
			r := bufio.NewReader(c)
			for i := range pieces {
				_, err := c.Write(make([]byte, piece))
				check(t, err)
				if i == 0 { // gives an answer that is early, and the end of the connection, time to arrive
					check(t, c.SetReadDeadline(time.Now().Add(200*time.Millisecond)))
					_, _ = r.Peek(1)
					check(t, c.SetReadDeadline(time.Time{}))
				}
			}
			answer, err := http.ReadResponse(r, nil)
			check(t, err)
			if answer.StatusCode != http.StatusRequestEntityTooLarge {
				t.Errorf("answered %s, want 413", answer.Status)
			}
			check(t, answer.Body.Close())
		})
	}
}
