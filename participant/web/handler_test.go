package web

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestWaitersOfABranchAreForgotten: no lock is kept for a branch without a request.
func TestWaitersOfABranchAreForgotten(t *testing.T) {
	waiting := branchLocks{locks: map[string]*branchLock{}}
	leave, err := waiting.lock(t.Context(), nil, "x")
	check(t, err)
	gone := make(chan struct{})
	close(gone)
	if _, err := waiting.lock(t.Context(), gone, "x"); !errors.Is(err, errCallerGone) {
		t.Errorf("got %v", err)
	}
	other, err := waiting.lock(t.Context(), nil, "y")
	check(t, err)
	other()
	leave()
	if len(waiting.locks) != 0 {
		t.Errorf("%d are left", len(waiting.locks))
	}
}

// TestHandlerRefuses: requests that no coordinator sends.
func TestHandlerRefuses(t *testing.T) {
	c := new(counting)
	bed := onLedger(t)
	r := serving(t, bed.handler(c.callbacks(), Options{MaxBody: 10}), nil)
	for name, c := range map[string]struct {
		change func(*http.Request)
		status int
	}{
		"method":          {func(r *http.Request) { r.Method = http.MethodPut }, 405},
		"delete":          {func(r *http.Request) { r.Method = http.MethodDelete }, 405},
		"no phase":        {func(r *http.Request) { r.Header.Del(HeaderPhase) }, 400},
		"unknown phase":   {func(r *http.Request) { r.Header.Set(HeaderPhase, "abort") }, 400},
		"upper case":      {func(r *http.Request) { r.Header.Set(HeaderPhase, "Prepare") }, 400},
		"phase and URL":   {func(r *http.Request) { r.URL.Path = "/commit" }, 400},
		"two phases":      {func(r *http.Request) { r.Header.Add(HeaderPhase, "commit") }, 400},
		"no transaction":  {func(r *http.Request) { r.Header.Del(HeaderTransaction) }, 400},
		"no branch":       {func(r *http.Request) { r.Header.Set(HeaderBranch, "1") }, 400},
		"no xid":          {func(r *http.Request) { r.Header.Del(HeaderXID) }, 400},
		"other xid":       {func(r *http.Request) { r.Header.Set(HeaderXID, newBranch().XID) }, 400},
		"other branch":    {func(r *http.Request) { r.Header.Set(HeaderBranch, "b2") }, 400},
		"other key":       {func(r *http.Request) { r.Header.Set(HeaderIdempotency, `"x"`) }, 400},
		"no key":          {func(r *http.Request) { r.Header.Del(HeaderIdempotency) }, 200},
		"attempt":         {func(r *http.Request) { r.Header.Set(HeaderAttempt, "0") }, 400},
		"no attempt":      {func(r *http.Request) { r.Header.Del(HeaderAttempt) }, 200},
		"deadline":        {func(r *http.Request) { r.Header.Set(HeaderDeadline, "-1") }, 400},
		"deadline in s":   {func(r *http.Request) { r.Header.Set(HeaderDeadline, "5s") }, 400},
		"deadline over":   {func(r *http.Request) { r.Header.Set(HeaderDeadline, "0") }, 503},
		"no deadline":     {func(r *http.Request) { r.Header.Del(HeaderDeadline) }, 200},
		"endless":         {func(r *http.Request) { r.Header.Set(HeaderDeadline, "9223372036854775807") }, 200},
		"body":            {func(r *http.Request) { setBody(r, "") }, 200},
		"large body":      {func(r *http.Request) { setBody(r, strings.Repeat("x", 11)) }, 413},
		"just small":      {func(r *http.Request) { setBody(r, strings.Repeat("x", 10)) }, 200},
		"mounted by name": {func(r *http.Request) { r.URL.Path = "/anything" }, 200},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBranch()
			b.Payload = []byte("{}")
			req, err := r.request(t.Context(), call{phase: phasePrepare, method: http.MethodPost, to: r.prepare, branch: &b, left: func() time.Duration { return time.Minute }})
			check(t, err)
			c.change(req)
			resp, err := r.client.Do(req)
			check(t, err)
			check(t, resp.Body.Close())
			if resp.StatusCode != c.status {
				t.Errorf("%d, want %d", resp.StatusCode, c.status)
			}
		})
	}
	if n := bed.counts(t)["prepare"]; n != 7 {
		t.Errorf("%d callbacks ran", n)
	}
}

func setBody(r *http.Request, text string) {
	r.Body, r.ContentLength, r.GetBody = io.NopCloser(strings.NewReader(text)), int64(len(text)), nil
}
