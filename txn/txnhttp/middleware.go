package txnhttp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// HeaderOutcome of an answer is "rolled-back" when the request's transaction surely is.
const HeaderOutcome = "Txmgr-Outcome"

// headerPhase marks the coordinator's own calls to a participant.
const headerPhase = "Txmgr-Phase"

// Options tune a [Middleware]. The zero value is right for most services.
type Options struct {
	// MaxResponse is how many bytes of body a handler may answer in a transaction; when it
	// writes more, the transaction is rolled back. Defaults to 1 MiB.
	MaxResponse int
	// Margin is how long, after the transaction's timeout, its resources still wait for the
	// decision; then the coordinator finishes their branches. Defaults to 15s.
	Margin time.Duration
	// Logger gets a warning when resources had to be left to the coordinator. Defaults to
	// slog.Default().
	Logger *slog.Logger
}

// Middleware lets handlers work in the transactions of their callers. Make one with
// [New]; safe for concurrent use.
type Middleware struct {
	m     txn.Manager
	trust func(*http.Request) bool
	opts  Options

	ctx  context.Context // ends when waiting for decisions has to end
	stop context.CancelFunc

	mu          sync.Mutex // guards all below
	closing     bool
	completions sync.WaitGroup // grows while not closing
}

// New returns a middleware that works through the given manager, which has to be the one that
// the handlers use. trust says whether a request may name a transaction, by where or from whom
// it comes: [TrustVerifiedPeers], [TrustAll], or your own. It is called for requests that name
// one; a nil trust refuses them all.
func New(m txn.Manager, trust func(*http.Request) bool, o Options) *Middleware {
	if o.MaxResponse <= 0 {
		o.MaxResponse = 1 << 20
	}
	if o.Margin <= 0 {
		o.Margin = 15 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if trust == nil {
		trust = func(*http.Request) bool { return false }
	}
	w := &Middleware{m: m, trust: trust, opts: o}
	w.ctx, w.stop = context.WithCancel(context.Background())
	return w
}

// TrustAll trusts every request: for servers that only your own services can reach.
func TrustAll(*http.Request) bool { return true }

// TrustVerifiedPeers trusts requests over TLS whose client has presented a certificate that the
// server has verified (tls.RequireAndVerifyClientCert, or the like).
func TrustVerifiedPeers(r *http.Request) bool { return r.TLS != nil && len(r.TLS.VerifiedChains) > 0 }

// Handler runs next in the transaction that a request names.
func (w *Middleware) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		names := r.Header.Values(txn.HeaderID)
		if len(names) == 0 || r.Header.Get(headerPhase) != "" {
			next.ServeHTTP(rw, r)
			return
		}
		if !w.trust(r) {
			writeError(rw, http.StatusForbidden, &txn.Error{Op: "attach", Err: txn.ErrDenied, Detail: "this server does not take transactions from you"})
			return
		}
		id, err := txn.ParseID(names[0])
		if err == nil && len(names) > 1 {
			err = fmt.Errorf("%w: %d headers %s: want one", txn.ErrInvalid, len(names), txn.HeaderID)
		}
		if err != nil {
			writeError(rw, http.StatusBadRequest, txn.Wrap("attach", txn.ID{}, err))
			return
		}
		switch tx, in := txn.FromContext(r.Context()); {
		case in && tx.ID() == id: // wrapped twice
			next.ServeHTTP(rw, r)
		case w.stopping():
			writeError(rw, http.StatusServiceUnavailable, &txn.Error{Op: "attach", ID: id, Err: txn.ErrUnavailable, Detail: "the service is stopping"})
		default:
			w.serve(rw, r, id, next)
		}
	})
}

// serve runs next in the transaction, and answers when the result of its part is known.
func (w *Middleware) serve(rw http.ResponseWriter, r *http.Request, id txn.ID, next http.Handler) {
	resp, ran := newBufferedResponse(rw, w.opts.MaxResponse), false
	tx, err := txn.RunIn(r.Context(), w.m, id, func(ctx context.Context, _ *txn.Tx) error {
		ran = true
		next.ServeHTTP(resp, r.WithContext(ctx))
		return resp.err()
	})
	switch {
	case err == nil:
		w.completeInBackground(r, tx)
		resp.send()
	case errors.Is(err, errHandlerStatus):
		setOutcomeHeader(rw, err)
		resp.send()
	case errors.Is(err, errResponseTooLarge):
		writeError(rw, http.StatusInternalServerError, err)
	case !ran && errors.Is(err, txn.ErrUnavailable):
		writeError(rw, http.StatusServiceUnavailable, err)
	default:
		writeError(rw, http.StatusConflict, err)
	}
}

// completeInBackground drives the request's resources to the decision, when there is one. Only
// Close waits for it.
func (w *Middleware) completeInBackground(r *http.Request, tx *txn.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), tx.Timeout()+w.opts.Margin)
	stop := context.AfterFunc(w.ctx, cancel)
	end := func() {
		defer cancel()
		defer stop()
		if err := tx.Complete(ctx); err != nil {
			w.opts.Logger.Warn("the coordinator finishes the branches of a transaction that this service could not follow", "transaction", tx.ID(), "error", err)
		}
	}
	w.mu.Lock()
	closing := w.closing
	if !closing {
		w.completions.Go(end)
	}
	w.mu.Unlock()
	if closing {
		cancel() // Close does not wait for it any more
		end()
	}
}

func (w *Middleware) stopping() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closing
}

// Close waits until no resource waits for a decision any more, and meanwhile refuses requests
// that name a transaction. When ctx ends first, the resources are released, the coordinator
// finishes their branches, and the error is that of ctx. Call it after http.Server.Shutdown,
// and before closing what the resources need; a handler that outlives that leaves its branches
// to the coordinator.
func (w *Middleware) Close(ctx context.Context) error {
	w.mu.Lock()
	w.closing = true
	w.mu.Unlock()
	defer w.stop()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		w.completions.Wait()
	}()
	select {
	case <-drained:
		return nil
	case <-ctx.Done():
	}
	w.stop()
	<-drained
	return fmt.Errorf("sessions that follow transactions were left to the coordinator: %w", context.Cause(ctx))
}
