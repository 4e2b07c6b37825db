package web

import (
	"bytes"
	"context"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

var (
	someSecret = []byte("0123456789abcdef")
	someTime   = time.Unix(1700000000, 0)
)

// signedRequest is a request as a service receives it.
func signedRequest(secret []byte, now time.Time) (*http.Request, []byte) {
	body := []byte(`{"to":"alice"}`)
	r := httptest.NewRequest(http.MethodPost, "/txmgr/prepare", bytes.NewReader(body))
	for name, value := range map[string]string{
		HeaderTransaction: "tx_01k9x3v7h2m8qf4r6t0bz5n1de", HeaderBranch: "b1", HeaderXID: "txm_test_01k9x3v7h2m8qf4r6t0bz5n1de_b1",
		HeaderPhase: "prepare", HeaderDeadline: "5000",
	} {
		r.Header.Set(name, value)
	}
	r.Header.Set(HeaderSignature, sign(secret, r.Method, "/txmgr/prepare", r.Header, body, now))
	return r, body
}

// TestFormOfTheSignature must never be rewritten: services in other languages
// compute the same. It was computed by openssl, of the lines in
// docs/reference/web.md.
func TestFormOfTheSignature(t *testing.T) {
	r, _ := signedRequest(someSecret, someTime)
	const want = "t=1700000000,v1=00f437353787dd43fdb508461c240a9c4971bd1ce42ac519589df3528ffc9a61"
	if got := r.Header.Get(HeaderSignature); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestSignatures(t *testing.T) {
	now := someTime.Add(time.Minute)
	for name, c := range map[string]struct {
		change func(r *http.Request, body *[]byte)
		secret string
		now    time.Time
		want   string
	}{
		"right":          {},
		"other secret":   {secret: "fedcba9876543210", want: "the secrets differ"},
		"body":           {change: func(_ *http.Request, b *[]byte) { *b = append(*b, ' ') }, want: "the secrets differ"},
		"method":         {change: func(r *http.Request, _ *[]byte) { r.Method = "PUT" }, want: "the secrets differ"},
		"path":           {change: func(r *http.Request, _ *[]byte) { r.RequestURI = "/txmgr/commit" }, want: "the secrets differ"},
		"query":          {change: func(r *http.Request, _ *[]byte) { r.RequestURI += "?a" }, want: "the secrets differ"},
		"transaction":    {change: set(HeaderTransaction, "tx_01k9x3v7h2m8qf4r6t0bz5n1df"), want: "the secrets differ"},
		"branch":         {change: set(HeaderBranch, "b2"), want: "the secrets differ"},
		"xid":            {change: set(HeaderXID, "x"), want: "the secrets differ"},
		"phase":          {change: set(HeaderPhase, "commit"), want: "the secrets differ"},
		"deadline":       {change: set(HeaderDeadline, "50000"), want: "the secrets differ"},
		"no deadline":    {change: func(r *http.Request, _ *[]byte) { r.Header.Del(HeaderDeadline) }, want: "the secrets differ"},
		"moved a line":   {change: func(r *http.Request, _ *[]byte) { r.Header.Set(HeaderBranch, ""); r.Header.Set(HeaderXID, "b1") }, want: "the secrets differ"},
		"twice":          {change: func(r *http.Request, _ *[]byte) { r.Header.Add(HeaderPhase, "commit") }, want: "2 headers Txmgr-Phase"},
		"two signatures": {change: func(r *http.Request, _ *[]byte) { r.Header.Add(HeaderSignature, "x") }, want: "2 headers"},
		"none":           {change: func(r *http.Request, _ *[]byte) { r.Header.Del(HeaderSignature) }, want: "0 headers"},
		"malformed":      {change: set(HeaderSignature, "v1=00"), want: "want t=<seconds>"},
		"upper case": {change: func(r *http.Request, _ *[]byte) {
			r.Header.Set(HeaderSignature, strings.ToUpper(r.Header.Get(HeaderSignature)))
		}, want: "want t="},
		"other time": {change: func(r *http.Request, _ *[]byte) {
			s := r.Header.Get(HeaderSignature)
			r.Header.Set(HeaderSignature, "t=1700000001"+s[12:])
		}, want: "the secrets differ"},
		"replayed late":   {now: someTime.Add(5*time.Minute + time.Second), want: "5m1s off the clock"},
		"just in time":    {now: someTime.Add(5 * time.Minute)},
		"of the future":   {now: someTime.Add(-5*time.Minute - time.Second), want: "-5m1s off the clock"},
		"time overflows":  {change: resignAt("99999999999999999999"), want: "out of range"},
		"negative time":   {change: set(HeaderSignature, "t=-1,v1="+strings.Repeat("0", 64)), want: "want t="},
		"second is right": {secret: "fedcba9876543210,0123456789abcdef"},
	} {
		t.Run(name, func(t *testing.T) {
			r, body := signedRequest(someSecret, someTime)
			if c.change != nil {
				c.change(r, &body)
			}
			secrets := [][]byte{someSecret}
			if c.secret != "" {
				secrets = bytes.Split([]byte(c.secret), []byte(","))
			}
			at := now
			if !c.now.IsZero() {
				at = c.now
			}
			err := verify(secrets, r, body, at, 5*time.Minute)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func set(name, value string) func(*http.Request, *[]byte) {
	return func(r *http.Request, _ *[]byte) { r.Header.Set(name, value) }
}

func resignAt(t string) func(*http.Request, *[]byte) {
	return func(r *http.Request, body *[]byte) {
		m := mac(someSecret, r.Method, r.RequestURI, r.Header, *body, t)
		r.Header.Set(HeaderSignature, "t="+t+",v1="+hex.EncodeToString(m))
	}
}

// TestHandlerChecksSignatures of everything but OPTIONS, and before it does anything.
func TestHandlerChecksSignatures(t *testing.T) {
	bed := onLedger(t)
	h := bed.handler(callbacks{prepare: func(_ context.Context, do work, _ Branch) error { return do("prepared", 1) }}, Options{Secrets: [][]byte{someSecret}})
	s := httptest.NewServer(h)
	defer s.Close()
	b := newBranch()
	post := func(change func(*http.Request)) (int, string) {
		t.Helper()
		r := opened(t, map[string]string{"url": s.URL})
		req, err := r.request(t.Context(), call{phase: phasePrepare, method: http.MethodPost, to: r.prepare, branch: &b})
		check(t, err)
		change(req)
		resp, err := http.DefaultClient.Do(req)
		check(t, err)
		text, err := io.ReadAll(resp.Body)
		check(t, err)
		check(t, resp.Body.Close())
		return resp.StatusCode, string(text)
	}
	signAt := func(secret string, at time.Time) func(*http.Request) {
		return func(r *http.Request) {
			r.Header.Set(HeaderSignature, sign([]byte(secret), r.Method, r.URL.RequestURI(), r.Header, b.Payload, at))
		}
	}
	for name, change := range map[string]func(*http.Request){
		"unsigned": func(*http.Request) {},
		"wrong":    signAt("fedcba9876543210", time.Now()),
		"replay":   signAt(string(someSecret), time.Now().Add(-10*time.Minute)),
	} {
		if status, text := post(change); status != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	if status, _ := get(t, s.URL+"/prepared"); status != http.StatusUnauthorized {
		t.Errorf("list: %d", status)
	}
	if n := bed.counts(t)["prepared"]; n != 0 {
		t.Errorf("%d callbacks ran", n)
	}
	if status, text := post(signAt(string(someSecret), time.Now())); status != http.StatusOK {
		t.Errorf("%d %s", status, text)
	}
	http.DefaultClient.CloseIdleConnections()

	w := httptest.NewRecorder()
	bed.handler(callbacks{}, Options{Secrets: [][]byte{[]byte("short")}}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/prepared", nil))
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "5 bytes") {
		t.Errorf("a secret that is none: %d %s", w.Code, w.Body)
	}
}

func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	resp, err := http.Get(url)
	check(t, err)
	b, err := io.ReadAll(resp.Body)
	check(t, err)
	check(t, resp.Body.Close())
	return resp.StatusCode, string(b)
}
