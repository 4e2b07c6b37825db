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

// currentEndpoint is the endpoint to use now, and its number for [Client.shouldMigrate].
func (c *Client) currentEndpoint() (*endpoint, uint32) {
	n := c.current.Load()
	return c.endpoints[int(n)%len(c.endpoints)], n
}

// failOver goes on to the next endpoint, once for however many calls failed at n.
func (c *Client) failOver(n uint32) { c.current.CompareAndSwap(n, n+1) }

// switchToLeader goes to the endpoint that has the leader's URL, if there is one. One that
// did not answer lately is left alone: others may reach it, and pass calls on, when
// this client cannot.
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
		// If somebody else moves meanwhile, the next answer tells again.
		if ahead > 0 && c.current.CompareAndSwap(n, n+ahead) {
			c.pipeline.signal()
		}
		return
	}
}

// health says whether an endpoint answers.
type health struct {
	mu            sync.Mutex // guards the rest
	failures      int        // in a row
	cooldownUntil time.Time  // no hint leads there before
}

// minCooldown and maxShun bound how long no hint leads to an endpoint that did not
// answer: each failure doubles it.
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

// endpointTransport is the way to one endpoint: every request shows the token, and every answer
// may say who leads.
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
		r = r.Clone(r.Context()) // it is the caller's
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
	// Whoever takes what is stale does so to spare the leader.
	if leader := answer.Header.Get(wire.HeaderLeader); leader != "" && !stale {
		d.c.switchToLeader(leader)
	}
	return answer, nil
}

// isTLSRequired reports whether an answer is that of net/http to what is not TLS.
func isTLSRequired(answer *http.Response) bool {
	return answer.Request.URL.Scheme == "http" && answer.Proto == "HTTP/1.0" && answer.StatusCode == http.StatusBadRequest
}

// probeTLS asks over HTTP/1.1: a server of TLS closes a connection that begins as HTTP/2
// without an answer.
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
	_ = answer.Body.Close() // the head says it all
	return isTLSRequired(answer)
}

// CloseIdleConnections lets [http.Client.CloseIdleConnections] reach the
// transport.
func (d *endpointTransport) CloseIdleConnections() {
	if c, ok := d.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
