package txn

import (
	"context"
	"hash/fnv"
	"sync/atomic"
)

// Namer is a [Manager] that can name a transaction and its branches before the coordinator
// knows them, so that the begin and the enlistments are sent while the application works.
// node.Node, client.Client and txntest.Manager are Namers; with another manager [Start] begins,
// and [Join] enlists, by a call that is waited for.
type Namer interface {
	Manager
	// NameTransaction returns what a begin of these options would be: with an id, its mark, the
	// granted timeout, and the client session of ctx. It makes no call. ok is false when not all
	// of that is known at present, or when a begin would be refused now: then the transaction is
	// begun by a call, whose error says why.
	NameTransaction(ctx context.Context, o Options) (n Naming, ok bool)
}

// Naming is what is known of a transaction that the coordinator has not begun yet.
type Naming struct {
	Options Options      // of the begin: with ID, Mark, Timeout and Session
	Cluster string       // the cluster's id, a part of every [XID]
	Hints   *BranchHints // of the manager; nil: the begin never waits for a second branch
	// Appoints says that the coordinator knows [Enlistment.Decides], as its latest answer to a begin
	// has told ([BeginResult.Appoints]). Otherwise no branch is appointed: a single one is awaited, and
	// the decision delegated to it.
	Appoints bool
}

// BranchHints remembers for names of transactions ([Options.Name]) whether the latest one had
// several branches. Names may share an entry: a wrong hint costs a call more, or a begin that is
// sent a millisecond later, and decides nothing. The zero value knows nothing. Safe for
// concurrent use.
type BranchHints struct{ several [256]atomic.Bool }

// of is the entry of a name.
func (h *BranchHints) of(name string) *atomic.Bool {
	if h == nil {
		return new(atomic.Bool)
	}
	f := fnv.New32a()
	_, _ = f.Write([]byte(name)) // never fails
	return &h.several[f.Sum32()%uint32(len(h.several))]
}
