package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// maxFile is the most that is read of a PEM file, in bytes.
const maxFile = 1 << 20

// Files names PEM files. Cert may contain the intermediate certificates after the own one; CA
// may contain several authorities, so that one can replace another.
type Files struct{ Cert, Key, CA string }

func (f Files) paths() []string { return []string{f.Cert, f.Key, f.CA} }

// material is the content of the files when they were last valid.
type material struct {
	cert        *tls.Certificate // nil: none was named
	roots       *x509.CertPool   // nil: none was named
	cluster     string           // the cluster of which the certificate makes a peer, or empty
	keyReadable bool             // other users than the owner can read or change the key
}

// load reads the files and checks what can be checked without a handshake.
func load(f Files) (*material, error) {
	m := &material{}
	if f.CA != "" {
		data, _, err := read(f.CA)
		if err != nil {
			return nil, err
		}
		m.roots = x509.NewCertPool()
		if !m.roots.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("%w: %s holds no certificate of an authority in PEM", txn.ErrInvalid, f.CA)
		}
	}
	if f.Cert == "" && f.Key == "" {
		return m, nil
	}
	cert, exposed, err := loadPair(f.Cert, f.Key)
	if err != nil {
		return nil, err
	}
	m.cert, m.keyReadable = cert, exposed
	for _, n := range Names(cert.Leaf) {
		switch {
		case n.Role != RolePeer:
		case m.cluster != "" && m.cluster != n.Cluster:
			return nil, fmt.Errorf("%w: %s makes its owner a peer of two clusters, %q and %q", txn.ErrInvalid, f.Cert, m.cluster, n.Cluster)
		default:
			m.cluster = n.Cluster
		}
	}
	return m, nil
}

func loadPair(certFile, keyFile string) (cert *tls.Certificate, exposed bool, err error) {
	certPEM, _, err := read(certFile)
	if err != nil {
		return nil, false, err
	}
	keyPEM, mode, err := read(keyFile)
	if err != nil {
		return nil, false, err
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	switch {
	case err != nil && strings.Contains(err.Error(), "does not match"):
		return nil, false, fmt.Errorf("%w: %w: %s and %s: %w", txn.ErrInvalid, ErrKeyMismatch, certFile, keyFile, err)
	case err != nil:
		return nil, false, fmt.Errorf("%w: %s and %s: %w", txn.ErrInvalid, certFile, keyFile, err)
	}
	if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
		return nil, false, fmt.Errorf("%w: %s: %w", txn.ErrInvalid, certFile, err)
	}
	if now := time.Now(); now.Before(pair.Leaf.NotBefore) || now.After(pair.Leaf.NotAfter) {
		return nil, false, fmt.Errorf("%w: %w: %s holds %s", txn.ErrInvalid, ErrExpired, certFile, describe(pair.Leaf))
	}
	// A group may read keys, as Debian's ssl-cert does, but not change them.
	return &pair, runtime.GOOS != "windows" && mode&0o027 != 0, nil
}

func read(file string) ([]byte, os.FileMode, error) {
	if file == "" {
		return nil, 0, fmt.Errorf("%w: certificate and key belong together, and one is not named", txn.ErrInvalid)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %w", txn.ErrInvalid, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %w", txn.ErrInvalid, err)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, 0, fmt.Errorf("%w: reading %s: %w", txn.ErrInvalid, file, err)
	}
	if len(data) > maxFile {
		return nil, 0, fmt.Errorf("%w: %s has more than %d bytes, so it is no PEM file of ours", txn.ErrInvalid, file, maxFile)
	}
	return data, info.Mode().Perm(), nil
}

// checkPeer checks in addition that the certificate is that of a peer.
func (m *material) checkPeer(f Files) error {
	switch {
	case m.cert == nil || m.roots == nil:
		return fmt.Errorf("%w: TLS between nodes needs a certificate, its key and the authority; not all three are named", txn.ErrInvalid)
	case m.cluster == "":
		return fmt.Errorf("%w: %w: %s holds %s", txn.ErrInvalid, ErrNotPeer, f.Cert, describe(m.cert.Leaf))
	}
	chain, err := parseChain(m.cert.Certificate)
	if err == nil {
		err = errors.Join(verifyChain(chain, m.roots, x509.ExtKeyUsageServerAuth), verifyChain(chain, m.roots, x509.ExtKeyUsageClientAuth))
	}
	if err != nil {
		return fmt.Errorf("%w: no peer would accept %s with %s: %w", txn.ErrInvalid, f.Cert, f.CA, err)
	}
	return nil
}

func parseChain(der [][]byte) ([]*x509.Certificate, error) {
	chain := make([]*x509.Certificate, len(der))
	for i, d := range der {
		c, err := x509.ParseCertificate(d)
		if err != nil {
			return nil, err
		}
		chain[i] = c
	}
	return chain, nil
}
