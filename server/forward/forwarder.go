package forward

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/txmgr/txmgr/internal/certs"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// RetryNoLeader is the time after which a client may retry a call that found no leader:
// elections take little time.
const RetryNoLeader = 200 * time.Millisecond

// Config configures a [Forwarder].
type Config struct {
	// Certificates authenticate this node to the leader; nil without TLS.
	Certificates *certs.Store
	// IdleTimeout is how long an unused connection to the leader stays open.
	IdleTimeout time.Duration
	// Draining is the cause with which the lifetime of a call ends when this server stops.
	Draining error
	// Log receives lines about responses that were cut off.
	Log *slog.Logger
}

// Node is the node that forwards.
type Node interface {
	// Status returns the node's status.
	Status(ctx context.Context) (admin.Status, error)
}

// Forwarder forwards calls to the leader. Make it with [New].
type Forwarder struct {
	cfg        Config
	node       Node
	name       atomic.Pointer[string] // of the node, once it is known
	transports *leaderTransports
	outcomes   *prometheus.CounterVec
}

// New makes a forwarder.
func New(cfg Config, n Node) *Forwarder {
	f := &Forwarder{cfg: cfg, node: n, transports: newLeaderTransports(cfg.IdleTimeout, cfg.Certificates)}
	f.outcomes = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "txmgr_forwarded_total",
		Help: "Calls that were forwarded to the leader: answered, lost (no response) or refused (not sent).",
	}, []string{"outcome"})
	for _, outcome := range []string{"answered", "lost", "refused"} {
		f.outcomes.WithLabelValues(outcome)
	}
	return f
}

// Metrics returns the metrics about forwarded calls.
func (f *Forwarder) Metrics() prometheus.Collector { return f.outcomes }

// Close closes the connections that are not in use.
func (f *Forwarder) Close() { f.transports.close() }

// Method is what matters here about the method of a call.
type Method struct {
	Name string // for logs
	Op   string // for errors: "begin"
	// Stream: the response is a stream. Bidi: so is the request; it is a Pipe.
	Stream, Bidi bool
	// EndsAtDrain: the call ends at once when this server stops, and not only at its deadline.
	EndsAtDrain bool
}

// Call is one call to forward.
type Call struct {
	Method   Method
	Writer   http.ResponseWriter
	Request  *http.Request   // as the client sent it, with a limited body
	Lifetime context.Context // ends when the call has to end, with the cause
	// Timeout is for a client that sends none; MaxTimeout limits those that clients send.
	Timeout, MaxTimeout time.Duration
	Responder           Responder
	// Denied is called when the leader denies the call. May be nil.
	Denied func()
}

// Responder answers and observes one call.
type Responder interface {
	// Fail answers with the failure of err, and observes it.
	Fail(err error)
	// Failure converts err for Write.
	Failure(err error) *connect.Error
	// Write writes a failure to w in the protocol of the client.
	Write(w http.ResponseWriter, e *connect.Error)
	// Observe is called when there was a response: err is nil if it arrived completely.
	Observe(code txn.Code, took time.Duration, err error)
}

// proxyCall is one call that is being forwarded to the leader.
type proxyCall struct {
	Call
	forwarder *Forwarder
	rc        *http.ResponseController
	started   time.Time
	ctx       context.Context // ends with the call; its cause says why
	cancel    context.CancelCauseFunc
	sent      atomic.Bool // there is a connection: the call may have arrived
}

// Forward sends a call to the leader, whose API is at a URL, and its response back. An error
// means that nothing was sent, and nothing answered.
func (f *Forwarder) Forward(c Call, api string) error {
	p := &proxyCall{Call: c, forwarder: f, rc: http.NewResponseController(c.Writer), started: time.Now()}
	p.ctx, p.cancel = context.WithCancelCause(c.Request.Context())
	defer p.cancel(nil)
	defer p.boundLifetime()()

	out, err := p.request(api)
	if err != nil {
		f.outcomes.WithLabelValues("refused").Inc()
		return err
	}
	defer out.Body.Close()
	res, err := f.transports.forMethod(c.Method).RoundTrip(out)
	if err != nil {
		p.failNoResponse(err)
		return nil
	}
	defer res.Body.Close()
	p.copyResponse(res)
	return nil
}

// nodeName is the name of this node, for the other nodes.
func (f *Forwarder) nodeName() string {
	if name := f.name.Load(); name != nil {
		return *name
	}
	ctx, cancel := context.WithTimeout(txn.AllowStale(context.Background()), time.Second)
	defer cancel()
	status, err := f.node.Status(ctx)
	if err != nil || status.Node == "" {
		return "a node"
	}
	f.name.Store(&status.Node)
	return status.Node
}
