// Package peer is how the nodes of a cluster talk to one another: one TCP port for
// raft's streams and for the few questions that nodes ask each other besides: who are
// you, add me, remove me, may I found a cluster with you.
//
// raft's own network transport believes whoever connects. Here a connection has to
// say first who it comes from, of which cluster and of which incarnation, and is let
// in, or refused with a reason; with TLS that talk is inside TLS, and certificates
// come before it. Only then does raft, or a question's decoder, see a byte.
//
// # A connection
//
//	dialer                                   acceptor
//	(TLS, both show certificates)
//	hello: kind, id, cluster, incarnation →
//	                                       ← welcome: id, cluster, incarnation; or why not
//	then raft's messages; or one question  →
//	                                       ← its answer
//
// All but raft's messages are frames: "TXMP", a version, what it is, the length (two
// bytes), and that much JSON. Unknown fields are ignored, so that releases can add
// some; another version is refused by name.
//
// # Invariants
//
//  1. Nothing is handed to raft but streams that were let in: of the same cluster and
//     incarnation, as far as both sides know theirs, not the node's own id, and
//     accepted by Config.Admit and Config.Stream.
//  2. A stream of raft reaches the node it is meant for, or nobody: streams are pooled
//     by id and address, and the id is checked when one is made. So a node that came
//     to another's address never acknowledges in its name.
//  3. Beyond loopback nothing is served without TLS, except with Config.Insecure.
//  4. Everything is bounded: frames, connections, connections that have not said who
//     they are (in all and for each address; the oldest goes first), questions at
//     once, and the time for each step.
//  5. Garbage costs a connection and nothing else: no panic, no log line for each.
//  6. A sender that is halted in the middle of a message holds raft up for a moment only.
//  7. Who was let in is asked about again by [Server.Reauthorize]: a node that is removed
//     loses its connections.
//
// # Concurrency
//
// A [Server] is safe for concurrent use. Config's functions are called from many
// goroutines, and must not call back. [Server.Close] waits for the goroutines of this package; those
// of raft's transport end with their connections.
//
// # Time
//
// Five seconds for the handshake, three for a TCP connection, thirty for a question,
// ten for a message of raft (more for a snapshot), five of them without a byte of it at
// most, keepalives after fifteen.
//
// # What it does not do
//
// It decides nothing about membership: that is package node's. It does not encrypt
// without certificates.
package peer
