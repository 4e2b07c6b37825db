package certs

import "errors"

// Reasons for refusing a certificate: the own one when files are read, or the other side's in
// a handshake.
var (
	// ErrExpired: the certificate has expired, or is not yet valid.
	ErrExpired = errors.New("the certificate is not valid now")
	// ErrUnknownAuthority: no authority that this side trusts has signed the certificate.
	ErrUnknownAuthority = errors.New("the certificate is of another authority")
	// ErrNotPeer: the certificate does not have the role peer.
	ErrNotPeer = errors.New("the certificate has no peer role")
	// ErrClusterMismatch: the certificate is that of a peer of another cluster.
	ErrClusterMismatch = errors.New("the certificate is of another cluster")
	// ErrNoCertificate: the other side showed no certificate.
	ErrNoCertificate = errors.New("no certificate was shown")
	// ErrKeyMismatch: the key does not belong to the certificate.
	ErrKeyMismatch = errors.New("the key does not fit the certificate")
)
