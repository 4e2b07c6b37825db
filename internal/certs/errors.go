package certs

import "errors"

// Why a certificate is refused, the own one when files are read or the other side's
// in a handshake.
var (
	// ErrExpired: the certificate's time is over, or has not begun.
	ErrExpired = errors.New("the certificate is not valid now")
	// ErrUnknownAuthority: no authority that this side trusts has signed it.
	ErrUnknownAuthority = errors.New("the certificate is of another authority")
	// ErrNotPeer: it is nobody's who may take part in a cluster.
	ErrNotPeer = errors.New("the certificate has no peer role")
	// ErrClusterMismatch: it is a peer's of another cluster.
	ErrClusterMismatch = errors.New("the certificate is of another cluster")
	// ErrNoCertificate: the other side showed no certificate.
	ErrNoCertificate = errors.New("no certificate was shown")
	// ErrKeyMismatch: the key does not belong to the certificate.
	ErrKeyMismatch = errors.New("the key does not fit the certificate")
)
