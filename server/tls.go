package server

import (
	"crypto/tls"
	"fmt"

	"github.com/txmgr/txmgr/internal/certs"
)

// openTLS opens the certificates: those to serve with and those to reach the other nodes
// with; both are nil without TLS.
func openTLS(cfg Config) (own, others *certs.Store, err error) {
	if !cfg.TLS.enabled() {
		return nil, nil, nil
	}
	own, err = certs.Open(certs.Files{Cert: cfg.TLS.CertFile, Key: cfg.TLS.KeyFile, CA: cfg.TLS.ClientCAFile}, cfg.Log)
	if err != nil {
		return nil, nil, fmt.Errorf("server: %w", err)
	}
	others, err = certs.Open(certs.Files{Cert: cfg.TLS.CertFile, Key: cfg.TLS.KeyFile, CA: cfg.TLS.CAFile}, cfg.Log)
	if err != nil {
		return nil, nil, fmt.Errorf("server: %w", err)
	}
	return own, others, nil
}

// serverTLS is the TLS configuration of the server; nil without certificates. It requests
// client certificates, and [auth.Authenticator.Authorize] requires them: health needs none.
func serverTLS(own *certs.Store) (*tls.Config, error) {
	if own == nil {
		return nil, nil
	}
	config, err := own.Server(false)
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	return config, nil
}
