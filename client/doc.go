// Package client is a [txn.Manager] over the network: the coordinator of package
// server, as if it ran in this process.
//
// Calls about one transaction travel through a Pipe: one stream per client that
// carries batches of commands. A caller puts its command into a queue; one
// goroutine sends whatever is in the queue, without waiting for more; another
// hands the replies out. The more callers there are, the more commands share a
// message. Everything else, and everything with [Config.Unary], is a call of its
// own.
//
// # Invariants
//
//  1. Only what can be repeated is repeated. Every call names its transaction (an
//     id that is missing from a begin is made here, before the first try), and
//     the coordinator answers a repeated call as it did the first time.
//  2. A connection that is lost, a node that is not ready and load that was shed
//     are tried again, elsewhere if there are several addresses, with full
//     jitter, not before the time that the server asked for, and never after the
//     context has ended. The few calls that cannot be repeated, CreateToken,
//     TransferLeader and Leave, are tried again only when they surely have not
//     been carried out.
//  3. A commit, vote or delegation that may have arrived and has no answer is
//     [txn.ErrInDoubt], with the id, also when a later try of the same call is told
//     that the transaction is not known, or that the caller may not ask; one that
//     surely has not arrived is [txn.ErrUnavailable]. No other call is ever in doubt: all of them may simply
//     be made again.
//  4. Errors are *[txn.Error] with the sentinels that the coordinator gave, and
//     those of the context that ended the call.
//  5. After [Client.Close] no goroutine and no connection is left.
//  6. A caller who is not admitted is told so at once: [txn.ErrDenied] is never
//     tried again.
//
// # Sessions
//
// A [Session] says that this process lives: what is begun in it is rolled back soon after
// the process is gone. A goroutine sends the signs of life, three in the session's TTL, until
// the session or the client is closed, or the coordinator says that it is over.
//
// # Clusters
//
// Any node takes any call and passes it on to the leader. Answers that were passed
// on name the leader; when its URL is among the addresses, calls go there directly
// from then on, and the Pipe moves there as soon as the commands in flight are
// answered. A leader that this client cannot reach is left to the other nodes for
// a second, and longer each time. With [txn.AllowStale] reads are answered by the
// node in use, which may lag behind, and say nothing about where to go.
//
// # Concurrency
//
// A [Client] is meant to be shared by all goroutines of a process.
//
// # Time
//
// A context without a deadline gets [Config.RequestTimeout], or
// [Config.FanoutTimeout] where participants are asked, except for Wait and Watch,
// which last as long as their context. No call is tried anew after RequestTimeout.
// With several addresses one try has a third of the time that is left, so that a node
// that hangs does not take all of it; before what may take longer, such as a list, the
// node has to show that it answers. The time that a call may take is not the timeout
// of the transaction.
//
// # What it does not do
//
// It does not use proxies from the environment, does not cache, and does not look
// for nodes beyond the addresses it was given.
package client
