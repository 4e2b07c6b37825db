package certs

import "errors"

// Why a certificate is refused, the own one when files are read or the other side's
// in a handshake.
var (
	// ErrExpired: the certificate's time is over, or has not begun.
	ErrExpired = errors.New("the certificate is not valid now")
	// ErrAuthority: no authority that this side trusts has signed it.
	ErrAuthority = errors.New("the certificate is of another authority")
	// ErrNotPeer: it is nobody's who may take part in a cluster.
	ErrNotPeer = errors.New("the certificate has no peer role")
	// ErrForeign: it is a peer's of another cluster.
	ErrForeign = errors.New("the certificate is of another cluster")
	// ErrNone: the other side showed no certificate.
	ErrNone = errors.New("no certificate was shown")
	// ErrKey: the key does not belong to the certificate.
	ErrKey = errors.New("the key does not fit the certificate")
)
