// Package client is a [txn.Manager] over the network: the coordinator of package server, as
// if it ran in this process. Call [Dial] or [Open] once per process, and [Client.Close] at
// the end.
//
//	c, err := client.Dial("http://node1:7460,http://node2:7460,http://node3:7460")
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//	return txn.Run(ctx, c, txn.Options{Name: "transfer"}, transfer) // func(ctx, *txn.Tx) error
//
// Calls about one transaction travel through a Pipe: one stream per client that carries
// batches of commands. A caller puts its command into a queue; one goroutine sends whatever
// is in the queue, without waiting for more; another delivers the replies. The more
// concurrent callers there are, the more commands share a message. All other calls, and every
// call with [Config.Unary], are requests of their own.
//
// # Invariants
//
//  1. Only idempotent calls are repeated. Every call names its transaction (an id that is
//     missing from a begin is made here, before the first try), and the coordinator answers a
//     repeated call as it did the first time.
//  2. After a lost connection, and when a node is unavailable or sheds load, calls are
//     retried, at another address if there are several, with full jitter, not before the time
//     that the server asked for, and never after the context has ended. The few calls that
//     are not idempotent, CreateToken, TransferLeader and Leave, are retried only if they
//     surely have not been executed.
//  3. A commit, vote or delegation that may have arrived and has no answer is
//     [txn.ErrInDoubt], with the id, also if a later try of the same call finds that the
//     transaction is not known, or that the caller is denied; one that surely has not arrived
//     is [txn.ErrUnavailable]. No other call is ever in doubt, and all of them may be repeated,
//     except CreateToken, TransferLeader and Leave: their [txn.ErrUnavailable] may mean that
//     the call was executed all the same.
//  4. Errors are *[txn.Error] with the sentinels that the coordinator gave, and those of the
//     context that ended the call.
//  5. After [Client.Close] no goroutine and no connection is left.
//  6. A rejected caller gets the error at once: [txn.ErrDenied] is never retried.
//
// # Naming
//
// From the answers to the first calls of a client it learns what it needs to name transactions
// without a call: the cluster's id, the default timeout and the latest mark; see package naming.
// So [txn.Run] makes no call before the work, and sends the begin and the enlistments while the
// work goes on. Reports of completion with [txn.AllowDelay] are put into the queue without
// waking its goroutine: they leave with the next command, or after 5 ms. There is one try, and
// [Client.Close] waits for it.
//
// # Sessions
//
// A [Session] is a lease of this process: soon after the process is gone, its undecided
// transactions are rolled back. A goroutine sends keep-alives, three in the session's TTL,
// until the session or the client is closed, or the coordinator reports that the session has
// ended.
//
// # Clusters
//
// Any node takes any call and forwards it to the leader. Forwarded responses name the leader;
// if its URL is among the addresses, later calls go there directly, and the Pipe moves there
// as soon as the commands in flight are answered. If this client cannot reach the leader, it
// uses other nodes, which forward, for a second, and longer after each failure. With
// [txn.AllowStale] the node in use answers reads itself, may lag behind, and does not
// redirect the client.
//
// # Concurrency
//
// A [Client] is safe for concurrent use, and meant to be shared by all goroutines of a
// process.
//
// # Time
//
// A context without a deadline gets [Config.RequestTimeout], or [Config.FanoutTimeout] for
// calls that fan out to participants, except for Wait and Watch, which last as long as their
// context. No call is retried after RequestTimeout. With several addresses one try has a
// third of the time that is left, so that a node that hangs does not take all of it; before a
// call that may take longer, such as a list, the client checks that the node answers. The
// time limit of a call is not the timeout of the transaction.
//
// # What it does not do
//
// It does not use proxies from the environment, does not cache, and does not look for nodes
// beyond the addresses it was given.
package client
