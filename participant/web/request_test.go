package web

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/participant"
)

// TestRequest: the request on the wire, as a service in another language receives it.
func TestRequest(t *testing.T) {
	b := newBranch()
	b.Payload, b.Attempts = []byte(`{"to":"alice"}`), 2
	id := b.TX.String()
	// No traceparent: one that is not sampled would switch the service's tracing off.
	for _, phase := range []string{"prepare", "commit", "rollback"} {
		t.Run(phase, func(t *testing.T) {
			var got *http.Request
			var body []byte
			r := serving(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				got = r
				body, _ = io.ReadAll(r.Body)
				consent(w, r)
			}), nil)
			var err error
			switch phase {
			case "prepare":
				_, _, err = r.Prepare(t.Context(), b)
			case "commit":
				_, err = r.Commit(t.Context(), b)
			case "rollback":
				_, err = r.Rollback(t.Context(), b)
			}
			check(t, err)
			if got.Method != "POST" || got.URL.Path != "/"+phase || string(body) != `{"to":"alice"}` {
				t.Errorf("%s %s: %s", got.Method, got.URL, body)
			}
			want := map[string]string{
				"Txmgr-Transaction-Id": id, "Txmgr-Branch-Id": "b1", "Txmgr-Xid": b.XID, "Txmgr-Phase": phase, "Txmgr-Attempt": "3",
				"Idempotency-Key": `"` + id + `/b1/` + phase + `"`, "Content-Type": "application/json", "User-Agent": "txmgr", "Content-Length": "14",
			}
			if phase == "prepare" {
				want["Txmgr-Deadline"] = "59999"
			}
			seen := map[string]string{}
			for name := range got.Header {
				seen[name] = got.Header.Get(name)
			}
			if d, err := parseDeadline(seen["Txmgr-Deadline"]); phase == "prepare" && (err != nil || d > time.Minute || d < 50*time.Second) {
				t.Errorf("deadline %q", seen["Txmgr-Deadline"])
			} else if phase == "prepare" {
				seen["Txmgr-Deadline"] = "59999"
			}
			if diff := cmp.Diff(want, seen); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestContentType(t *testing.T) {
	for payload, want := range map[string]string{`{"a":1}`: "application/json", "\x00\x01": "application/octet-stream", "": ""} {
		got := "none"
		r := serving(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got = r.Header.Get("Content-Type")
			consent(w, r)
		}), nil)
		b := newBranch()
		b.Payload = []byte(payload)
		_, err := r.Commit(t.Context(), b)
		check(t, err)
		if got != want {
			t.Errorf("%q: %q, want %q", payload, got, want)
		}
	}
}

// TestHungServerEndsWithTheContext: it accepts, and never answers.
func TestHungServerEndsWithTheContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer l.Close()
	for name, c := range map[string]struct {
		settings map[string]string
		patience time.Duration
		says     string
	}{
		"context": {nil, 100 * time.Millisecond, "deadline exceeded"},
		"setting": {map[string]string{"timeout": "100ms"}, time.Hour, "no answer within 100ms"},
	} {
		t.Run(name, func(t *testing.T) {
			settings := map[string]string{"url": "http://" + l.Addr().String(), "list": "/prepared"}
			for k, v := range c.settings {
				settings[k] = v
			}
			r := opened(t, settings)
			for call, do := range map[string]func(context.Context) error{
				"prepare":  func(ctx context.Context) error { _, _, err := r.Prepare(ctx, newBranch()); return err },
				"commit":   func(ctx context.Context) error { _, err := r.Commit(ctx, newBranch()); return err },
				"rollback": func(ctx context.Context) error { _, err := r.Rollback(ctx, newBranch()); return err },
				"list":     func(ctx context.Context) error { _, err := r.Prepared(ctx, r.prefix); return err },
				"check":    r.Check,
			} {
				ctx, cancel := context.WithTimeout(t.Context(), c.patience)
				err := do(ctx)
				cancel()
				if !errors.Is(err, context.DeadlineExceeded) || noEffect(err) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%s: %v", call, err)
				}
			}
		})
	}
	t.Run("close", func(t *testing.T) {
		p, err := open(map[string]string{"url": "http://" + l.Addr().String()})
		check(t, err)
		ended := make(chan error)
		go func() { _, err := p.Commit(t.Context(), newBranch()); ended <- err }()
		check(t, p.Close())
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "web mail: closed") {
			t.Errorf("got %v", err)
		}
	})
}

// TestCutConnectionIsNoAnswer: an incomplete response is not a response, whatever is missing.
func TestCutConnectionIsNoAnswer(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n" + HeaderVote + ": prepared\r\n" + HeaderOutcome + ": committed\r\n"
	for name, text := range map[string]string{
		"nothing":       "",
		"status line":   "HTTP/1.1 20",
		"headers":       ok + "Content-Length: 4\r\n",
		"body":          ok + "Content-Length: 4\r\n\r\nab",
		"no HTTP":       "SSH-2.0-OpenSSH\r\n",
		"long header":   ok + "X: " + strings.Repeat("x", maxHeaders+1) + "\r\n\r\n",
		"informational": "HTTP/1.1 100 Continue\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			r := serving(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				conn, _, err := w.(http.Hijacker).Hijack()
				if err == nil {
					_, _ = io.WriteString(conn, text)
					_ = conn.Close()
				}
			}), nil)
			if vote, _, err := r.Prepare(t.Context(), newBranch()); err == nil || noEffect(err) {
				t.Errorf("prepare: %v, %v", vote, err)
			}
			if result, err := r.Commit(t.Context(), newBranch()); err == nil || noEffect(err) {
				t.Errorf("commit: %v, %v", result, err)
			}
		})
	}
}

// TestHugeBodyIsNotRead: a service that sends without an end does no harm.
func TestHugeBodyIsNotRead(t *testing.T) {
	var sent atomic.Int64
	endless := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(HeaderVote, votePrepared)
		w.Header().Set(HeaderOutcome, outcomeCommitted)
		block := []byte(strings.Repeat("x", 1<<16))
		for {
			n, err := w.Write(block)
			sent.Add(int64(n))
			if err != nil {
				return
			}
		}
	})
	r := serving(t, endless, map[string]string{"list": "/prepared"})
	if vote, _, err := r.Prepare(t.Context(), newBranch()); vote == 0 || err != nil {
		t.Errorf("prepare: %v, %v", vote, err)
	}
	if got, err := r.Commit(t.Context(), newBranch()); got.Outcome != participant.Committed || err != nil {
		t.Errorf("commit: %v, %v", got, err)
	}
	if _, err := r.Prepared(t.Context(), r.prefix); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("list: %v", err)
	}
	if n := sent.Load(); n > 64<<20 {
		t.Errorf("%d bytes were taken", n)
	}
}

func TestRedirectIsNotFollowed(t *testing.T) {
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		r := serving(t, http.RedirectHandler(other.URL, status), map[string]string{"list": "/prepared"})
		if got, err := r.Commit(t.Context(), newBranch()); err == nil || got.Outcome != 0 {
			t.Errorf("%d: %v, %v", status, got, err)
		}
		if _, err := r.Prepared(t.Context(), ""); err == nil {
			t.Errorf("%d: a list was read", status)
		}
	}
	if n := elsewhere.Load(); n != 0 {
		t.Errorf("%d requests went elsewhere", n)
	}
}

func TestUnreachableServiceHasNoEffect(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	check(t, l.Close())
	r := opened(t, map[string]string{"url": "http://" + l.Addr().String()})
	_, err = r.Commit(t.Context(), newBranch())
	wantError(t, err, "connection refused", true)
	check(t, r.Close())
	_, err = r.Commit(t.Context(), newBranch())
	wantError(t, err, "closed", true)
}

func TestPrepareAfterTheDeadlineIsNotSent(t *testing.T) {
	r := serving(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("was sent") }), nil)
	b := newBranch()
	b.TimeLeft = 0
	_, _, err := r.Prepare(t.Context(), b)
	wantError(t, err, "time is over", true)
}

func TestTLS(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(consent))
	defer s.Close()
	s.Config.ErrorLog = nil
	file := filepath.Join(t.TempDir(), "ca.pem")
	r := opened(t, map[string]string{"url": s.URL, "ca_file": file})
	_, err := r.Commit(t.Context(), newBranch())
	wantError(t, err, "ca_file", true)
	check(t, os.WriteFile(file, []byte("nothing"), 0o600))
	_, err = r.Commit(t.Context(), newBranch())
	wantError(t, err, "holds no certificate", true)
	check(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600))
	got, err := r.Commit(t.Context(), newBranch())
	wantOutcome(t, "commit", got, err, participant.Committed, "", false)

	_, err = opened(t, map[string]string{"url": s.URL}).Commit(t.Context(), newBranch())
	wantError(t, err, "certificate", true)
}

func TestSecretIsByReferenceAndReadAnew(t *testing.T) {
	const one, two = "the-first-secret-of-all", "the-second-secret-of-all"
	served := onLedger(t).handler(callbacks{}, Options{Secrets: [][]byte{[]byte(two)}})
	file := filepath.Join(t.TempDir(), "secret")
	r := serving(t, served, map[string]string{"secret_file": file, "list": "/prepared"})
	b := newBranch()
	attempt := func() error { _, _, err := r.Prepare(t.Context(), b); return err }
	wantError(t, attempt(), "no such file", true)
	check(t, os.WriteFile(file, []byte("short"), 0o600))
	wantError(t, attempt(), "5 bytes", true)
	check(t, os.WriteFile(file, []byte(one), 0o600))
	wantError(t, attempt(), "401 Unauthorized", true)
	if err := r.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("check: %v", err)
	}
	check(t, os.WriteFile(file, []byte(two+"\n"), 0o600))
	check(t, attempt())
	check(t, r.Check(t.Context()))
	if list, err := r.Prepared(t.Context(), r.prefix); len(list) != 1 || err != nil {
		t.Errorf("list: %v, %v", list, err)
	}

	t.Setenv("TXMGR_TEST_SECRET", two)
	r = serving(t, served, map[string]string{"secret_env": "TXMGR_TEST_SECRET"})
	_, err := r.Commit(t.Context(), b)
	check(t, err)
	r = serving(t, served, map[string]string{"secret_env": "TXMGR_TEST_NO_SUCH"})
	_, err = r.Commit(t.Context(), b)
	wantError(t, err, "TXMGR_TEST_NO_SUCH is not set", true)
}

func TestCheckTakesAnyAnswer(t *testing.T) {
	for _, status := range []int{200, 204, 301, 401, 404, 405, 500} {
		check(t, serving(t, stubService{status, nil, ""}, nil).Check(t.Context()))
	}
	err := serving(t, stubService{404, nil, ""}, map[string]string{"list": "/prepared"}).Check(t.Context())
	wantError(t, err, "list: the service answered 404", false)
}

func TestHealth(t *testing.T) {
	page, err := json.Marshal(page{Branches: []listedBranch{}})
	check(t, err)
	fine := stubService{200, http.Header{"Date": {time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat)}}, string(page)}
	levels := func(r *resourceManager) map[string]participant.HealthLevel {
		all := map[string]participant.HealthLevel{}
		for _, d := range r.CheckHealth(t.Context()) {
			subject, _, _ := strings.Cut(d.Subject, " ")
			all[subject] = d.Level
			if d.Message == "" || (d.Remedy == "") != (d.Level == participant.OK) {
				t.Errorf("%+v", d)
			}
		}
		return all
	}
	got := levels(serving(t, fine, nil))
	want := map[string]participant.HealthLevel{"reach": participant.OK, "clock": participant.Warning, "list": participant.Warning, "signature": participant.Warning}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	t.Setenv("TXMGR_TEST_SECRET", strings.Repeat("s", 16))
	s := httptest.NewTLSServer(onLedger(t).handler(callbacks{}, Options{Secrets: [][]byte{[]byte(strings.Repeat("s", 16))}}))
	defer s.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	check(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600))
	got = levels(opened(t, map[string]string{"url": s.URL, "list": "/prepared", "secret_env": "TXMGR_TEST_SECRET", "ca_file": file}))
	if diff := cmp.Diff(map[string]participant.HealthLevel{"reach": participant.OK, "list": participant.OK}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got = levels(opened(t, map[string]string{"url": "http://192.0.2.1:9", "allow": "192.0.2.2/32", "list": "/x"}))
	want = map[string]participant.HealthLevel{"reach": participant.Failure, "list": participant.Failure, "signature": participant.Warning}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
