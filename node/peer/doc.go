// Package peer connects the nodes of a cluster: one TCP port for raft's streams and for the few
// requests that nodes send each other besides: hello, join, leave, and consent to a bootstrap. Call
// [Open] to listen, then give [Server.Transport] to raft:
//
//	s, err := peer.Open(peer.Config{Listen: "10.0.0.1:7461", TLS: files, Self: identity, Handler: handler})
//	if err != nil {
//		return err
//	}
//	defer s.Close()
//	transport := s.Transport()
//
// raft's own network transport trusts every connection. Here the dialer first reports its id, its
// cluster and its incarnation, and is admitted, or refused with a reason; with TLS this handshake
// is inside TLS, and certificates are checked before it. Only then does raft, or the decoder of a
// request, receive a byte.
//
// # A connection
//
//	dialer                                   acceptor
//	(TLS, both show certificates)
//	hello: kind, id, cluster, incarnation →
//	                                       ← hello reply: id, cluster, incarnation; or why not
//	then raft's messages; or one request   →
//	                                       ← its response
//
// All but raft's messages are frames: "TXMP", a version, the type, the length (two
// bytes), and that much JSON. Unknown fields are ignored, so that releases can add
// some; another version is refused by name.
//
// The types are 1, a hello before raft's messages; 2, a hello before a request; 3, the reply to a
// hello; 4, a request; 5, a response; and 6, a hello before the messages of another raft group than
// group 0, which has the number of the group as well. No node sends type 6 yet. It is refused with
// the reason "group", by earlier releases without one: the connection is closed.
//
// # Invariants
//
//  1. raft receives only streams that were admitted: of group 0, of the same cluster and
//     incarnation, as far as both sides know theirs, not with the node's own id, and accepted by
//     Config.Admit and Config.AdmitRaft.
//  2. A raft stream reaches the node it is meant for, or none: streams are pooled by id and
//     address, and the id is checked when one is made. So a node that took over another's address
//     never acknowledges in its name.
//  3. Beyond loopback nothing is served without TLS, except with Config.Insecure.
//  4. Everything is bounded: frames, connections, connections that have not identified themselves
//     (in all and for each address; the oldest is closed first), concurrent requests, and the time
//     for each step.
//  5. Malformed input costs a connection and nothing else: no panic, no log line for each.
//  6. A sender that is suspended in the middle of a message holds raft up for a moment only.
//  7. [Server.Reauthorize] checks admitted nodes again: a node that is removed loses its
//     connections.
//
// # Concurrency
//
// A [Server] is safe for concurrent use. Config's functions are called from many
// goroutines, and must not call back. [Server.Close] waits for the goroutines of this package; those
// of raft's transport end with their connections.
//
// # Time
//
// Five seconds for the handshake, three for a TCP connection, thirty for a request, ten for a raft
// message (more for a snapshot), at most five of them without a byte of it, keepalives after
// fifteen.
//
// # What it does not do
//
// It makes no decision about membership: that is the task of package node. It does not encrypt
// without certificates.
package peer
