// Package certs loads, checks, renews and makes the certificates of a cluster. Call
// [OpenPeer] for the port between nodes, [Open] for the API: its [Store] serves a
// certificate, and can require client certificates. [NewAuthority] makes certificates where
// there is no other authority.
//
//	peers, err := certs.OpenPeer(certs.Files{Cert: "node.crt", Key: "node.key", CA: "ca.crt"}, nil)
//	if err != nil {
//		return err
//	}
//	ln = tls.NewListener(ln, peers.Server())
//
// TLS between nodes answers another question than TLS to a web site: not "is this the host of
// that name", but "is this a node of my cluster". Addresses change; so the answer is in the
// certificate itself, as URIs of the form
//
//	txmgr://<cluster id>/<role>/<name>
//
// with the roles peer, server and client. This cluster id is a name that the operator chose
// when making the authority. One certificate may carry several such URIs.
//
// # Invariants
//
//  1. TLS 1.3 and nothing older.
//  2. Peers check each other: the chain to the authority, the time, the role peer, and that
//     the other's cluster id equals the one in their own certificate. Host names prove
//     nothing about peers and are not checked.
//  3. Files are read again when they change: a handshake checks them at most once a second,
//     [Store.Reload] at once. New files that cannot be used change nothing, and are logged
//     once.
//  4. No TLS session is resumed: every connection is verified again.
//  5. A private key never appears in an error or in the log.
//
// # Concurrency
//
// Stores are safe for concurrent use, and so are the configurations that they return, which
// may be used for any number of connections. An Authority is safe for concurrent use. The
// package starts no goroutine.
//
// # What it does not do
//
// It does not revoke: a certificate ends with its time or its authority, and package
// node/peer refuses a removed node by its id.
package certs
