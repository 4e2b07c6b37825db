package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// Kind is the kind of participant under which a service is registered.
const Kind = "web"

// Driver makes the coordinator's side of one service. It does not connect. It
// implements [participant.Driver]. The settings:
//
//	url          the service: /prepare, /commit and /rollback are appended
//	prepare, commit, rollback
//	             instead of url: the URL of each phase
//	list         where the service lists prepared branches; a URL, or with url a
//	             path that is appended to it, for example /prepared. Without it
//	             the sweep finds nothing at this service
//	allow        hosts, addresses and networks that may be called, separated by
//	             commas, with :port or without; defaults to the hosts of the URLs
//	secret_file  a file on each node with the secret that signs requests; read at each
//	secret_env   an environment variable of each node that holds it
//	ca_file      a file on each node with the certificate authorities of https;
//	             defaults to those of the system
//	timeout      of one call; defaults to 10s
//
// Addresses at which no service of a network is (loopback, link-local, metadata services) are
// refused unless allow names them, by address; a URL may name loopback itself.
func Driver(_ context.Context, p admin.Participant, cluster string) (participant.Participant, error) {
	s, err := readSettings(p)
	if err != nil {
		return nil, err
	}
	closing, closed := context.WithCancelCause(context.Background())
	return &resourceManager{
		settings: s, name: p.Name, prefix: txn.ClusterPrefix(cluster),
		client: newClient(s), closing: closing, closed: closed,
	}, nil
}

// resourceManager is the coordinator's side of one service.
type resourceManager struct {
	settings
	name    string
	prefix  string
	client  *http.Client
	closing context.Context // ends with Close
	closed  context.CancelCauseFunc
}

// bound limits a call to the setting timeout, cancels it when the participant is closed, and
// names the participant in its error. The caller defers fail with the address of the error.
func (r *resourceManager) bound(ctx context.Context, what string) (_ context.Context, fail func(*error)) {
	ctx, cancel := context.WithCancelCause(ctx)
	ctx, late := context.WithTimeoutCause(ctx, r.timeout, fmt.Errorf("no answer within %v: %w", r.timeout, context.DeadlineExceeded))
	stop := context.AfterFunc(r.closing, func() { cancel(context.Cause(r.closing)) })
	return ctx, func(err *error) {
		if *err != nil {
			*err = fmt.Errorf("web %s: %s: %w", r.name, what, *err)
			if cause := context.Cause(ctx); cause != nil && !errors.Is(*err, cause) {
				*err = fmt.Errorf("%w: %w", *err, cause)
			}
		}
		stop()
		late()
		cancel(nil)
	}
}

// Prepare implements [participant.Preparer].
func (r *resourceManager) Prepare(ctx context.Context, b participant.Branch) (vote txn.Vote, detail string, err error) {
	ctx, fail := r.bound(ctx, "prepare "+clean(b.XID, 64))
	defer fail(&err)
	started := time.Now()
	if b.TimeLeft <= 0 {
		return 0, "", &participant.NoEffectError{Err: errors.New("the transaction's time is over")}
	}
	a, err := r.post(ctx, phasePrepare, r.prepare, b, func() time.Duration { return b.TimeLeft - time.Since(started) })
	if err != nil {
		return 0, "", err
	}
	return a.vote()
}

// Commit implements [participant.Participant].
func (r *resourceManager) Commit(ctx context.Context, b participant.Branch) (_ participant.Result, err error) {
	ctx, fail := r.bound(ctx, "commit "+clean(b.XID, 64))
	defer fail(&err)
	a, err := r.post(ctx, phaseCommit, r.commit, b, nil)
	if err != nil {
		return participant.Result{}, err
	}
	return a.commit(b)
}

// Rollback implements [participant.Participant]. The service ends its work for the branch, and
// refuses to prepare it later.
func (r *resourceManager) Rollback(ctx context.Context, b participant.Branch) (_ participant.Result, err error) {
	ctx, fail := r.bound(ctx, "rollback "+clean(b.XID, 64))
	defer fail(&err)
	a, err := r.post(ctx, phaseRollback, r.rollback, b, nil)
	if err != nil {
		return participant.Result{}, err
	}
	return a.rollback(b)
}

// post calls the service in one phase. left is nil if the phase has no deadline.
func (r *resourceManager) post(ctx context.Context, phase string, to *url.URL, b participant.Branch, left func() time.Duration) (response, error) {
	if !strings.HasPrefix(b.XID, r.prefix) {
		return response{}, &participant.NoEffectError{Err: fmt.Errorf("%w: branch %q is not of this cluster", txn.ErrInvalid, clean(b.XID, 64))}
	}
	return r.send(ctx, call{phase: phase, method: http.MethodPost, to: to, branch: &b, left: left})
}

// Close implements [participant.Participant]. Calls in flight end with an error.
func (r *resourceManager) Close() error {
	r.closed(fmt.Errorf("web %s: closed", r.name))
	r.client.CloseIdleConnections()
	return nil
}
