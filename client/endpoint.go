package client

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/txn"
)

// currentEndpoint returns the endpoint in use, and its number for [Client.failOver].
func (c *Client) currentEndpoint() (*endpoint, uint32) {
	n := c.current.Load()
	return c.endpoints[int(n)%len(c.endpoints)], n
}

// failOver moves to the next endpoint, once for all calls that failed at n.
func (c *Client) failOver(n uint32) { c.current.CompareAndSwap(n, n+1) }

// switchToLeader moves to the endpoint that has the leader's URL, if there is one and it is
// not cooling down: other nodes may reach it, and forward calls, if this client cannot.
func (c *Client) switchToLeader(url string) {
	url = strings.TrimRight(url, "/")
	for i, e := range c.endpoints {
		if e.base != url {
			continue
		}
		if e.health.coolingDown(time.Now()) {
			return
		}
		n, all := c.current.Load(), uint32(len(c.endpoints))
		ahead := (uint32(i) + all - n%all) % all
		// If another call moves meanwhile, the next response names the leader again.
		if ahead > 0 && c.current.CompareAndSwap(n, n+ahead) {
			c.pipeline.signal()
		}
		return
	}
}

// health records whether an endpoint answers.
type health struct {
	mu            sync.Mutex // guards the rest
	failures      int        // in a row
	cooldownUntil time.Time  // switchToLeader ignores it before
}

// minCooldown and maxCooldown bound how long [Client.switchToLeader] ignores an endpoint that
// did not answer: each failure doubles the time.
const (
	minCooldown = time.Second
	maxCooldown = 30 * time.Second
)

func (h *health) coolingDown(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return now.Before(h.cooldownUntil)
}

func (h *health) record(answered bool, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if answered {
		h.failures, h.cooldownUntil = 0, time.Time{}
		return
	}
	h.cooldownUntil = now.Add(min(minCooldown<<min(h.failures, 10), maxCooldown))
	h.failures++
}

// endpointTransport sends the requests to one endpoint: it adds the token, and reads from
// every response who leads.
type endpointTransport struct {
	http.RoundTripper
	c     *Client
	e     *endpoint
	http2 bool
}

// RoundTrip implements [http.RoundTripper].
func (d *endpointTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	stale := txn.StaleAllowed(r.Context())
	if secret := d.c.secret.get(); secret != "" || stale {
		r = r.Clone(r.Context()) // the original belongs to the caller
		if secret != "" {
			r.Header.Set("Authorization", "Bearer "+secret)
		}
		if stale {
			r.Header.Set(wire.HeaderStale, "true")
		}
	}
	answer, err := d.RoundTripper.RoundTrip(r)
	if err == nil || !errors.Is(r.Context().Err(), context.Canceled) {
		d.e.health.record(err == nil, time.Now())
	}
	if err != nil {
		if d.http2 && !errors.Is(err, syscall.ECONNREFUSED) && r.Context().Err() == nil && !d.c.reached.Load() && d.probeTLS(r.Context()) {
			err = errTLSRequired
		}
		return nil, err
	}
	if isTLSRequired(answer) {
		return nil, errors.Join(errTLSRequired, answer.Body.Close())
	}
	// A caller that accepts stale reads does so to spare the leader.
	if leader := answer.Header.Get(wire.HeaderLeader); leader != "" && !stale {
		d.c.switchToLeader(leader)
	}
	return answer, nil
}

// isTLSRequired reports whether a response is that of a net/http TLS server to plain HTTP.
func isTLSRequired(answer *http.Response) bool {
	return answer.Request.URL.Scheme == "http" && answer.Proto == "HTTP/1.0" && answer.StatusCode == http.StatusBadRequest
}

// probeTLS asks over HTTP/1.1: a TLS server closes a connection that begins as plain HTTP/2
// without a response.
func (d *endpointTransport) probeTLS(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, d.e.base+"/livez", nil)
	if err != nil || r.URL.Scheme != "http" {
		return false
	}
	answer, err := d.c.unary.RoundTrip(r)
	if err != nil {
		return false
	}
	_ = answer.Body.Close() // the headers are enough
	return isTLSRequired(answer)
}

// CloseIdleConnections lets [http.Client.CloseIdleConnections] reach the
// transport.
func (d *endpointTransport) CloseIdleConnections() {
	if c, ok := d.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
