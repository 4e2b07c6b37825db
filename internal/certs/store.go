package certs

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// Store gives configurations for the API, of a server or of a client.
type Store struct{ reloader *reloader }

// Open reads the files. Certificate and key may be missing together, for a client
// that shows none, and CA, for a server that asks for none. logger nil means
// slog.Default(). Errors are [txn.ErrInvalid], with one of this package's where one
// fits.
func Open(f Files, logger *slog.Logger) (*Store, error) {
	k, err := open(f, logger, nil)
	if err != nil {
		return nil, err
	}
	return &Store{k}, nil
}

// Reload reads the files now, as on SIGHUP. When they cannot be used the error says
// why, and what was there before stays in use.
func (s *Store) Reload() error { return s.reloader.Reload() }

// Expires says until when the own certificate is good; zero when there is none.
func (s *Store) Expires() time.Time { return s.reloader.Expires() }

// Server gives a server's configuration. With a CA, certificates that callers show
// have to be of it; with required, callers have to show one. It says nothing about
// application protocols: whoever serves HTTP adds them.
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

// Client gives a client's configuration. host is the name or IP address that the
// server's certificate has to be for; empty leaves it to whoever uses the
// configuration, as net/http does. Without a CA the system's authorities are trusted.
//
// The own certificate is renewed as files change, the authorities are not, since
// crypto/tls has no way to: a client that lives long asks for a new configuration for
// each connection, for example in http.Transport.DialTLSContext.
func (s *Store) Client(host string) *tls.Config {
	c := s.reloader.config(tls.NoClientCert, nil)
	c.ServerName, c.RootCAs = host, s.reloader.current().roots
	return c
}

// PeerStore gives the two configurations of the port between nodes.
type PeerStore struct{ reloader *reloader }

// OpenPeer reads the files, all three of which have to be there. The certificate has
// to have the role peer, and to be signed by the authority: what no other node would
// accept is refused at once. logger nil means slog.Default(). Errors are
// [txn.ErrInvalid], with one of this package's where one fits.
func OpenPeer(f Files, logger *slog.Logger) (*PeerStore, error) {
	k, err := open(f, logger, func(m *material) error { return m.checkPeer(f) })
	if err != nil {
		return nil, err
	}
	return &PeerStore{k}, nil
}

// Reload reads the files now, as on SIGHUP. When they cannot be used the error says
// why, and what was there before stays in use.
func (s *PeerStore) Reload() error { return s.reloader.Reload() }

// Expires says until when the own certificate is good.
func (s *PeerStore) Expires() time.Time { return s.reloader.Expires() }

// Server gives the configuration of the side that accepts.
func (s *PeerStore) Server() *tls.Config {
	return s.reloader.config(tls.RequireAnyClientCert, func(m *material, chain []*x509.Certificate) error {
		return verifyPeer(chain, m.roots, x509.ExtKeyUsageClientAuth, m.cluster)
	})
}

// Client gives the configuration of the side that dials.
func (s *PeerStore) Client() *tls.Config {
	c := s.reloader.config(tls.NoClientCert, func(m *material, chain []*x509.Certificate) error {
		return verifyPeer(chain, m.roots, x509.ExtKeyUsageServerAuth, m.cluster)
	})
	// Not less is verified, but more, and against authorities that are renewed: by
	// VerifyConnection, which is called whether this is set or not.
	c.InsecureSkipVerify = true
	return c
}

// config is what all configurations have in common. It stays one object for all
// connections; what changes with the files is asked for in each handshake.
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
