package web

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"
)

// Limits of the connections to one service.
const (
	maxConns     = 16
	maxIdleConns = 8
	idleTimeout  = 90 * time.Second
	dialTimeout  = 5 * time.Second
	maxHeaders   = 16 << 10
	maxCAFile    = 1 << 20
)

// newClient makes the client for one service: it follows no redirect, uses no proxy, and dials
// only allowed addresses.
func newClient(s settings) *http.Client {
	d := dialer{allow: s.allow, caFile: s.caFile}
	return &http.Client{
		Transport: &http.Transport{
			DialContext:            d.dial,
			DialTLSContext:         d.dialTLS,
			DisableCompression:     true, // so that limits count the bytes that are received
			MaxConnsPerHost:        maxConns,
			MaxIdleConns:           maxIdleConns,
			MaxIdleConnsPerHost:    maxIdleConns,
			IdleConnTimeout:        idleTimeout,
			MaxResponseHeaderBytes: maxHeaders,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

type dialer struct {
	allow  allowList
	caFile string
}

func (d dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	plain := net.Dialer{
		Timeout: dialTimeout,
		Control: func(_, resolved string, _ syscall.RawConn) error {
			return d.allow.checkAddr(strings.ToLower(host), port, resolved)
		},
	}
	return plain.DialContext(ctx, network, addr)
}

// dialTLS reads the file of certificate authorities at each connection, so that it can be changed
// without restarting the node.
func (d dialer) dialTLS(ctx context.Context, network, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	if d.caFile != "" {
		pem, err := readFile(d.caFile, maxCAFile)
		if err != nil {
			return nil, fmt.Errorf("ca_file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca_file: %s holds no certificate", d.caFile)
		}
	}
	plain, err := d.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn := tls.Client(plain, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("TLS with %s: %w", addr, err), plain.Close())
	}
	return conn, nil
}
