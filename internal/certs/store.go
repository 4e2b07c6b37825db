package certs

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// Store provides the TLS configurations of the API, for a server or a client.
type Store struct{ reloader *reloader }

// Open reads the files. Certificate and key may be missing together, for a client that
// presents none, and CA, for a server that requests none. logger nil means slog.Default().
// Errors are [txn.ErrInvalid], with one of this package's where one fits.
func Open(f Files, logger *slog.Logger) (*Store, error) {
	k, err := open(f, logger, nil)
	if err != nil {
		return nil, err
	}
	return &Store{k}, nil
}

// Reload reads the files now, as on SIGHUP. If they cannot be used it returns the reason, and
// the previous ones stay in use.
func (s *Store) Reload() error { return s.reloader.Reload() }

// Expires returns the end of the own certificate's validity; zero if there is none.
func (s *Store) Expires() time.Time { return s.reloader.Expires() }

// Server returns the configuration of a server. With a CA, client certificates have to be
// signed by it; with required, clients have to present one. It sets no application protocols:
// an HTTP server has to add them.
func (s *Store) Server(required bool) (*tls.Config, error) {
	m := s.reloader.current()
	switch {
	case m.cert == nil:
		return nil, fmt.Errorf("%w: a server needs a certificate and its key", txn.ErrInvalid)
	case required && m.roots == nil:
		return nil, fmt.Errorf("%w: certificates of clients are required, but no authority of theirs is named", txn.ErrInvalid)
	case m.roots == nil:
		return s.reloader.config(tls.NoClientCert, nil), nil
	}
	auth := tls.RequestClientCert
	if required {
		auth = tls.RequireAnyClientCert
	}
	return s.reloader.config(auth, func(m *material, chain []*x509.Certificate) error {
		if len(chain) == 0 && !required {
			return nil
		}
		return verifyChain(chain, m.roots, x509.ExtKeyUsageClientAuth)
	}), nil
}

// Client returns the configuration of a client. host is the name or IP address that the
// server's certificate has to be for; empty leaves the name to the user of the configuration,
// such as net/http. Without a CA the system's authorities are trusted.
//
// The own certificate is renewed as files change, the authorities are not, since crypto/tls
// has no way to: a long-lived client has to ask for a new configuration for each connection,
// for example in http.Transport.DialTLSContext.
func (s *Store) Client(host string) *tls.Config {
	c := s.reloader.config(tls.NoClientCert, nil)
	c.ServerName, c.RootCAs = host, s.reloader.current().roots
	return c
}

// PeerStore provides the two TLS configurations of the port between nodes.
type PeerStore struct{ reloader *reloader }

// OpenPeer reads the files, all three of which are required. The certificate has to have the
// role peer, and to be signed by the authority: a certificate that no other node would accept
// is refused at once. logger nil means slog.Default(). Errors are [txn.ErrInvalid], with one
// of this package's where one fits.
func OpenPeer(f Files, logger *slog.Logger) (*PeerStore, error) {
	k, err := open(f, logger, func(m *material) error { return m.checkPeer(f) })
	if err != nil {
		return nil, err
	}
	return &PeerStore{k}, nil
}

// Reload reads the files now, as on SIGHUP. If they cannot be used it returns the reason, and
// the previous ones stay in use.
func (s *PeerStore) Reload() error { return s.reloader.Reload() }

// Expires returns the end of the own certificate's validity.
func (s *PeerStore) Expires() time.Time { return s.reloader.Expires() }

// Server returns the configuration of the side that accepts.
func (s *PeerStore) Server() *tls.Config {
	return s.reloader.config(tls.RequireAnyClientCert, func(m *material, chain []*x509.Certificate) error {
		return verifyPeer(chain, m.roots, x509.ExtKeyUsageClientAuth, m.cluster)
	})
}

// Client returns the configuration of the side that dials.
func (s *PeerStore) Client() *tls.Config {
	c := s.reloader.config(tls.NoClientCert, func(m *material, chain []*x509.Certificate) error {
		return verifyPeer(chain, m.roots, x509.ExtKeyUsageServerAuth, m.cluster)
	})
	// VerifyConnection, which is called whether this is set or not, verifies more than
	// crypto/tls would, and against authorities that are renewed.
	c.InsecureSkipVerify = true
	return c
}

// config is the common part of all configurations. It stays one object for all connections;
// each handshake asks for the parts that change with the files.
func (k *reloader) config(auth tls.ClientAuthType, verify func(*material, []*x509.Certificate) error) *tls.Config {
	c := &tls.Config{
		MinVersion:             tls.VersionTLS13,
		SessionTicketsDisabled: true,
		ClientAuth:             auth,
		GetCertificate:         func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return k.current().cert, nil },
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if m := k.current(); m.cert != nil {
				return m.cert, nil
			}
			return &tls.Certificate{}, nil
		},
	}
	if verify != nil {
		c.VerifyConnection = func(cs tls.ConnectionState) error { return verify(k.current(), cs.PeerCertificates) }
	}
	return c
}
