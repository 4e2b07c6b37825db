package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/txmgr/txmgr/participant"
)

// call is one request to the service.
type call struct {
	phase  string
	method string
	to     *url.URL
	branch *participant.Branch  // nil: the call is not for a branch
	left   func() time.Duration // time until the deadline; nil: there is none
	limit  int64                // of the response's body, in bytes; 0: enough for a reason
}

// response is the service's response, or that of a gateway.
type response struct {
	status    int
	header    http.Header
	body      []byte // cut at the call's limit
	truncated bool
	raw       *http.Response // its body is closed
}

// send makes one call. A [participant.NoEffectError] means that the service has not been reached.
func (r *resourceManager) send(ctx context.Context, c call) (response, error) {
	if err := ctx.Err(); err != nil {
		return response{}, &participant.NoEffectError{Err: context.Cause(ctx)}
	}
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	req, err := r.request(ctx, c)
	if err != nil {
		return response{}, &participant.NoEffectError{Err: err}
	}
	resp, err := r.client.Do(req)
	if err != nil {
		if inner := (*url.Error)(nil); errors.As(err, &inner) {
			err = fmt.Errorf("%s %s: %w", c.method, c.to.Redacted(), inner.Err)
		}
		if !connected.Load() {
			err = &participant.NoEffectError{Err: err}
		}
		return response{}, err
	}
	return read(resp, c.limit)
}

// request makes a call's request. The deadline and the signature have the present time.
func (r *resourceManager) request(ctx context.Context, c call) (*http.Request, error) {
	var payload []byte
	if c.branch != nil {
		payload = c.branch.Payload
	}
	req, err := http.NewRequestWithContext(ctx, c.method, c.to.String(), bytes.NewReader(payload))
	if err != nil {
		return nil, err
	}
	h := req.Header
	h.Set("User-Agent", "txmgr")
	h.Set(HeaderPhase, c.phase)
	if b := c.branch; b != nil {
		h.Set(HeaderTransaction, b.TX.String())
		h.Set(HeaderBranch, b.ID.String())
		h.Set(HeaderXID, b.XID)
		h.Set(HeaderAttempt, strconv.Itoa(max(b.Attempts, 0)+1))
		h.Set(HeaderIdempotency, idempotencyKey(b.TX, b.ID, c.phase))
	}
	if len(payload) > 0 {
		h.Set("Content-Type", contentType(payload))
	}
	if c.left != nil {
		h.Set(HeaderDeadline, deadlineText(c.left()))
	}
	if r.secret == nil {
		return req, nil
	}
	secret, err := r.secret()
	if err == nil {
		err = checkSecret(secret)
	}
	if err != nil {
		return nil, fmt.Errorf("secret: %w", err)
	}
	h.Set(HeaderSignature, sign(secret, c.method, c.to.RequestURI(), h, payload, time.Now()))
	return req, nil
}

func contentType(payload []byte) string {
	if json.Valid(payload) {
		return "application/json"
	}
	return "application/octet-stream"
}

// read reads a response up to limit bytes. If that is all of it, the connection can be reused.
func read(resp *http.Response, limit int64) (response, error) {
	if limit == 0 {
		limit = 4 * maxReason // cleaning shortens the text
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	a := response{status: resp.StatusCode, header: resp.Header, body: body, raw: resp}
	if int64(len(body)) > limit {
		a.body, a.truncated = body[:limit], true
	}
	if err != nil {
		err = fmt.Errorf("the answer %d breaks off: %w", resp.StatusCode, err)
	}
	return a, errors.Join(err, resp.Body.Close())
}
