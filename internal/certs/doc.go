// Package certs loads, checks, renews and makes the certificates of a cluster.
//
// TLS between nodes has to answer another question than TLS to a web site: not "is
// this the host of that name", but "is this a node of my cluster". Addresses change;
// so the answer is in the certificate itself, as URIs of the form
//
//	txmgr://<cluster id>/<role>/<name>
//
// with the roles peer, server and client. The cluster id is a name that people chose
// when they made the authority. One certificate may carry several such URIs.
//
// [Store] is for the API: it serves a certificate, and can ask callers for theirs.
// [PeerStore] is for the port between nodes. [Authority] makes certificates where
// nobody has an authority yet.
//
// # Invariants
//
//  1. TLS 1.3 and nothing older.
//  2. Peers check each other: the chain to the authority, the time, the role peer, and
//     that the other's cluster id is their own, which is the one in their own
//     certificate. Names of hosts say nothing about peers and are not looked at.
//  3. Files are read again when they change: a handshake looks at most once a second,
//     [Store.Reload] at once. New files that cannot be used change nothing, and are
//     complained of once.
//  4. No session is resumed: who was trusted yesterday is checked again today.
//  5. A private key never appears in an error or in the log.
//
// # Concurrency
//
// Stores are safe for concurrent use, and so are the configurations that they give,
// which may be used for as many connections as one likes. An Authority is safe for
// concurrent use. The package starts no goroutine.
//
// # What it does not do
//
// It does not revoke: a certificate ends with its time or its authority, and a node
// that was removed is refused by its id, by package node/peer.
package certs
