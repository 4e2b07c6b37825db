package sim

import (
	"context"

	"github.com/txmgr/txmgr/txn"
)

// namingApp is the manager of one transaction that its application names without a call: the begin and the enlistments are sent
// behind the work, and a single branch decides by its own end. Its calls take no steps of the application, which
// does not wait for them, and have random numbers of their own; they end when it dies.
type namingApp struct {
	*app

	r       *txRecord
	cluster string
}

// naming returns the manager and the options of a transaction: in half of the transactions it is one that names them. An
// application that will hang does not: where its announcement is lost, too, its session stays for ever.
func (a *app) naming(r *txRecord) (txn.Manager, txn.Options) {
	cluster, known := a.w.history.cluster.Load().(string)
	if !known || a.hangs || !a.names.oneIn(2) {
		return a, r.options
	}
	r.named = true
	a.w.countFault("application names its transaction")
	o := r.options
	o.ID = txn.ID{}
	calls := &app{w: a.w, n: a.n, rng: newRNG(a.w.plan.Seed, uint64(a.names.n(1<<30))), dead: a.dead, steps: -1, session: a.session, mark: a.latestMark()}
	return namingApp{calls, r, cluster}, o
}

// NameTransaction implements [txn.Namer].
func (m namingApp) NameTransaction(_ context.Context, o txn.Options) (txn.Naming, bool) {
	o.ID, o.Mark = m.r.id, m.r.options.Mark
	return txn.Naming{Options: o, Cluster: m.cluster, Appoints: true}, true
}

// Begin implements [txn.Manager], and records what is sent.
func (m namingApp) Begin(ctx context.Context, o txn.Options) (txn.BeginResult, error) {
	m.r.sent.Store(&o)
	return m.app.Begin(ctx, o)
}

// begin returns the begin of a transaction as its application has sent it, or will.
func (r *txRecord) begin() (txn.Options, bool) {
	if !r.named {
		return r.options, true
	}
	if o := r.sent.Load(); o != nil {
		return *o, true
	}
	return txn.Options{}, false
}

// learnCluster remembers the id of the cluster.
func (w *World) learnCluster(branches ...txn.Branch) {
	for _, b := range branches {
		if cluster, _, _, ok := txn.ParseXID(b.XID); ok {
			w.history.cluster.Store(cluster)
		}
	}
}
