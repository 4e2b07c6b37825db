package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strconv"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// Options of a [Handler]. The zero value is valid.
type Options struct {
	// Secrets are the secrets with which requests may be signed, of 16 to 4,096 bytes each: the
	// content of the coordinator's secret_file, without white space at its ends. More than one
	// allow a secret to be replaced. Defaults to none: signatures are not checked, and any
	// client that reaches the service can end its branches.
	Secrets [][]byte
	// Tolerance is the largest difference between the time of a signature and this clock, either
	// way. A replayed request is refused after that time. Defaults to 5m.
	Tolerance time.Duration
	// MaxBody limits payloads, in bytes. Defaults to [txn.MaxPayload].
	MaxBody int64
	// Timeout limits one callback, including its wait for others of the same branch.
	// Defaults to 1m.
	Timeout time.Duration
	// Logger logs why a request failed; the response to the coordinator says so too. Defaults to
	// no logging.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Tolerance <= 0 {
		o.Tolerance = 5 * time.Minute
	}
	if o.MaxBody <= 0 {
		o.MaxBody = txn.MaxPayload
	}
	if o.Timeout <= 0 {
		o.Timeout = time.Minute
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Handler returns a handler for the coordinator's requests: below one path, POST to prepare,
// commit and rollback, and GET of the list of prepared branches at any name, for example
// prepared. It is mounted for example by
//
//	mux.Handle("/txmgr/", web.Handler(store, callbacks, web.Options{}))
//
// and registered with url=http://service/txmgr and list=/prepared. The arguments must not be
// changed afterwards. If a secret is invalid, every response is 500.
func Handler[S any](store Store[S], c Callbacks[S], o Options) http.Handler {
	h := &handler{
		run: (&barrier[S]{store, c}).run, list: store.List,
		o: o.withDefaults(), locks: branchLocks{locks: map[string]*branchLock{}},
	}
	for _, secret := range o.Secrets {
		h.configErr = errors.Join(h.configErr, checkSecret(secret))
	}
	return h
}

type handler struct {
	run       func(ctx context.Context, phase string, br Branch) (reply, error)
	list      func(ctx context.Context, state, prefix, after string, limit int, visit func(xid, state string, since time.Time) error) error
	o         Options
	configErr error // of the options
	locks     branchLocks
}

// ServeHTTP implements [http.Handler].
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	answer := h.serve(w, r)
	if answer.status == 0 {
		return // the response is written
	}
	if answer.header != "" {
		w.Header().Set(answer.header, answer.value)
	}
	if answer.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(answer.status)
	_, _ = io.WriteString(w, answer.text+"\n") // a coordinator that has disconnected repeats the call
}

func (h *handler) serve(w http.ResponseWriter, r *http.Request) reply {
	switch {
	case h.configErr != nil:
		return h.failed(r, http.StatusInternalServerError, fmt.Errorf("the service is misconfigured: %w", h.configErr))
	case r.Method == http.MethodOptions:
		w.Header().Set("Allow", allowedMethods)
		w.WriteHeader(http.StatusNoContent)
		return reply{}
	case r.Method != http.MethodPost && r.Method != http.MethodGet:
		w.Header().Set("Allow", allowedMethods)
		return h.failed(r, http.StatusMethodNotAllowed, fmt.Errorf("method %s: want POST, or GET of the list", clean(r.Method, 16)))
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.o.MaxBody))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return h.failed(r, http.StatusRequestEntityTooLarge, fmt.Errorf("the body has more than %d bytes", tooLarge.Limit))
	} else if err != nil {
		return h.failed(r, http.StatusBadRequest, fmt.Errorf("read the body: %w", err))
	}
	if len(h.o.Secrets) > 0 {
		if err := verify(h.o.Secrets, r, body, time.Now(), h.o.Tolerance); err != nil {
			return h.failed(r, http.StatusUnauthorized, err)
		}
	}
	if r.Method == http.MethodGet {
		return h.serveList(w, r)
	}
	return h.servePhase(r, body)
}

const allowedMethods = "GET, OPTIONS, POST"

// servePhase serves one phase of one branch. It continues if the caller disconnects: the
// coordinator's timeout may be shorter than the work, and when it repeats the call the work is
// done.
func (h *handler) servePhase(r *http.Request, body []byte) reply {
	phase, br, left, err := parseRequest(r)
	if err != nil {
		return h.failed(r, http.StatusBadRequest, err)
	}
	br.Payload = body
	limit := h.o.Timeout
	if left >= 0 {
		limit = min(limit, left)
	}
	if limit <= 0 {
		return h.failed(r, http.StatusServiceUnavailable, errors.New("the transaction's time is over"))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), limit)
	defer cancel()
	leave, err := h.locks.lock(ctx, r.Context().Done(), br.XID)
	if err != nil {
		return h.failed(r, http.StatusServiceUnavailable, err)
	}
	defer leave()
	answer, err := h.run(ctx, phase, br)
	switch {
	case err != nil && ctx.Err() != nil:
		return h.failed(r, http.StatusServiceUnavailable, fmt.Errorf("%s was not done in the time that it had: %w", phase, err))
	case err != nil:
		return h.failed(r, http.StatusInternalServerError, err)
	case answer.value == wordEndedByApplication:
		h.o.Logger.Error("a callback has ended its local transaction", "phase", phase, "xid", br.XID, "answer", answer.text)
	}
	return answer
}

// failed returns the response to a request of which, as far as known, nothing became durable.
func (h *handler) failed(r *http.Request, status int, err error) reply {
	text := clean(err.Error(), maxReason)
	h.o.Logger.Warn("request of the coordinator failed", "status", status, "error", text,
		"phase", clean(r.Header.Get(HeaderPhase), 16), "xid", clean(r.Header.Get(HeaderXID), 64))
	return reply{status: status, text: text}
}

// singleHeaders are the headers that a request may have only once.
var singleHeaders = []string{HeaderTransaction, HeaderBranch, HeaderXID, HeaderPhase, HeaderDeadline, HeaderAttempt, HeaderIdempotency}

// parseRequest parses the headers. left is negative if the phase has no deadline.
func parseRequest(r *http.Request) (phase string, br Branch, left time.Duration, err error) {
	for _, name := range singleHeaders {
		if n := len(r.Header.Values(name)); n > 1 {
			return "", br, 0, fmt.Errorf("%d headers %s; want one", n, name)
		}
	}
	phase = r.Header.Get(HeaderPhase)
	phases := []string{phasePrepare, phaseCommit, phaseRollback}
	if !slices.Contains(phases, phase) {
		return "", br, 0, fmt.Errorf("%s %q: want prepare, commit or rollback", HeaderPhase, clean(phase, 32))
	}
	if end := path.Base(r.URL.Path); end != phase && slices.Contains(phases, end) {
		return "", br, 0, fmt.Errorf("phase %s came to the URL of %s: is the registration right?", phase, end)
	}
	if br, err = parseBranch(r.Header, phase); err != nil {
		return "", br, 0, err
	}
	left = -1
	if text := r.Header.Get(HeaderDeadline); text != "" && phase == phasePrepare {
		left, err = parseDeadline(text)
	}
	return phase, br, left, err
}

func parseBranch(h http.Header, phase string) (br Branch, err error) {
	if br.TX, err = txn.ParseID(h.Get(HeaderTransaction)); err != nil {
		return br, fmt.Errorf("%s: %w", HeaderTransaction, err)
	}
	if br.ID, err = txn.ParseBranchID(h.Get(HeaderBranch)); err != nil {
		return br, fmt.Errorf("%s: %w", HeaderBranch, err)
	}
	br.XID = h.Get(HeaderXID)
	if _, tx, id, ok := txn.ParseXID(br.XID); !ok || tx != br.TX || id != br.ID {
		return br, fmt.Errorf("%s %q is not a name of branch %v of transaction %v", HeaderXID, clean(br.XID, 64), br.ID, br.TX)
	}
	if key := h.Get(HeaderIdempotency); key != "" && key != idempotencyKey(br.TX, br.ID, phase) {
		return br, fmt.Errorf("%s %q belongs to another request", HeaderIdempotency, clean(key, 64))
	}
	br.Attempt = 1
	if text := h.Get(HeaderAttempt); text != "" {
		if br.Attempt, err = strconv.Atoi(text); err != nil || br.Attempt < 1 {
			return br, fmt.Errorf("%s %q: want a number from 1", HeaderAttempt, clean(text, 32))
		}
	}
	return br, nil
}

// serveList writes a page of the list: the prepared branches, or one branch by its XID, in any
// state.
func (h *handler) serveList(w http.ResponseWriter, r *http.Request) reply {
	q := r.URL.Query()
	state, prefix, after, limit := statePrepared, q.Get("prefix"), q.Get("after"), listPage
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return h.failed(r, http.StatusBadRequest, fmt.Errorf("limit %q: want a number from 1", clean(text, 32)))
		}
		limit = min(n, listPage)
	}
	xid := q.Get("xid")
	if xid != "" {
		state, prefix, after, limit = "", xid, "", 1
	}
	ctx, cancel := context.WithTimeout(r.Context(), h.o.Timeout)
	defer cancel()
	p := page{Branches: []listedBranch{}}
	err := h.list(ctx, state, prefix, after, limit+1, func(found, state string, since time.Time) error {
		if xid == "" || xid == found {
			p.Branches = append(p.Branches, listedBranch{XID: found, State: state, Since: since.UTC()})
		}
		return nil
	})
	if err != nil {
		return h.failed(r, http.StatusInternalServerError, fmt.Errorf("list: %w", err))
	}
	if len(p.Branches) > limit {
		p.Branches = p.Branches[:limit]
		p.Next = p.Branches[limit-1].XID
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(p) // a coordinator that has disconnected repeats the call
	return reply{}
}
