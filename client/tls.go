package client

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/txmgr/txmgr/txn"
)

// tls returns the settings for https: Config.TLS, or those of the files; nil if neither is
// set.
func (c Config) tls() (*tls.Config, error) {
	files := c.CACertFile != "" || c.CertFile != "" || c.KeyFile != ""
	switch {
	case !files:
		return c.TLS, nil
	case c.TLS != nil:
		return nil, fmt.Errorf("%w: client: both TLS and files of certificates are set; want one", txn.ErrInvalid)
	case (c.CertFile == "") != (c.KeyFile == ""):
		return nil, fmt.Errorf("%w: client: a certificate and its key belong together: CertFile is %q, KeyFile %q", txn.ErrInvalid, c.CertFile, c.KeyFile)
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS13}
	if c.CACertFile != "" {
		pem, err := os.ReadFile(c.CACertFile)
		if err != nil {
			return nil, fmt.Errorf("%w: client: certificates of servers: %w", txn.ErrInvalid, err)
		}
		if conf.RootCAs = x509.NewCertPool(); !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%w: client: %s holds no certificate in PEM", txn.ErrInvalid, c.CACertFile)
		}
	}
	if c.CertFile == "" {
		return conf, nil
	}
	if _, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile); err != nil {
		return nil, fmt.Errorf("%w: client: own certificate: %w", txn.ErrInvalid, err)
	}
	// Read per connection: connections are rare, and certificates are renewed at run time.
	conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("own certificate: %w", err)
		}
		return &pair, nil
	}
	return conf, nil
}
