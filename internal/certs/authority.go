package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"net/url"
	"slices"
	"time"

	"github.com/txmgr/txmgr/txn"
)

const (
	authorityYears = 10
	leafDays       = 365
	maxDays        = 3650
	maxHosts       = 100
	// clockSkew is how far the clocks of two hosts may differ on the day on which a
	// certificate is made.
	clockSkew = time.Hour
	// authorityPath is the path of the URI that names an authority's cluster.
	authorityPath = "/authority"
)

// Pair is a certificate and its private key, both in PEM. Write the key to a file
// with mode 0600.
type Pair struct{ Cert, Key []byte }

// Leaf describes a certificate to be issued.
type Leaf struct {
	// Name is the owner's name, and becomes part of its URIs: 1 to 64 letters, digits and
	// -._.
	Name string
	// Roles are some of RolePeer, RoleServer and RoleClient, at least one.
	Roles []string
	// Hosts are the names and IP addresses at which clients reach the owner; at most 100.
	// Peers do not check them.
	Hosts []string
	// Days is the period of validity in days, at most 3650 and not longer than the authority's.
	// Defaults to 365.
	Days int
}

// Authority signs the certificates of one cluster.
type Authority struct {
	cluster string
	cert    *x509.Certificate
	key     crypto.Signer
	pair    Pair
}

// NewAuthority makes an authority that is valid for ten years, with a new key. An invalid
// cluster id is [txn.ErrInvalid].
func NewAuthority(cluster string) (*Authority, error) {
	if err := checkCluster(cluster); err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "txmgr authority of " + cluster},
		URIs:                  []*url.URL{{Scheme: scheme, Host: cluster, Path: authorityPath}},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.AddDate(authorityYears, 0, 0),
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	key, pair, err := sign(template, nil)
	if err != nil {
		return nil, err
	}
	return newAuthority(pair, key)
}

// LoadAuthority reads an authority that [NewAuthority] made. Errors are
// [txn.ErrInvalid], with one of this package's where one fits.
func LoadAuthority(certFile, keyFile string) (*Authority, error) {
	loaded, _, err := loadPair(certFile, keyFile)
	if err != nil {
		return nil, err
	}
	key, ok := loaded.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("%w: the key in %s cannot sign", txn.ErrInvalid, keyFile)
	}
	pair, err := encode(loaded.Certificate[0], key)
	if err != nil {
		return nil, err
	}
	a, err := newAuthority(pair, key)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", certFile, err)
	}
	return a, nil
}

func newAuthority(pair Pair, key crypto.Signer) (*Authority, error) {
	block, _ := pem.Decode(pair.Cert)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", txn.ErrInvalid, err)
	}
	i := slices.IndexFunc(cert.URIs, func(u *url.URL) bool { return u.Scheme == scheme && u.Path == authorityPath })
	if !cert.IsCA || i < 0 || checkCluster(cert.URIs[i].Host) != nil {
		return nil, fmt.Errorf("%w: this is no authority of a txmgr cluster, whose certificate says %s://<cluster id>%s", txn.ErrInvalid, scheme, authorityPath)
	}
	return &Authority{cluster: cert.URIs[i].Host, cert: cert, key: key, pair: pair}, nil
}

// Cluster is the cluster id of the authority.
func (a *Authority) Cluster() string { return a.cluster }

// Pair returns the authority's certificate, which every node trusts, and its key, which only
// the authority's owner may have.
func (a *Authority) Pair() Pair { return a.pair }

// Issue makes a key and a certificate, valid for clients and servers, that names its owner in
// each of its roles. Errors are [txn.ErrInvalid].
func (a *Authority) Issue(l Leaf) (Pair, error) {
	if l.Days == 0 {
		l.Days = leafDays
	}
	switch {
	case len(l.Roles) == 0:
		return Pair{}, fmt.Errorf("%w: the certificate of %q has no role: want %s, %s or %s", txn.ErrInvalid, l.Name, RolePeer, RoleServer, RoleClient)
	case l.Days < 0 || l.Days > maxDays:
		return Pair{}, fmt.Errorf("%w: %d days: want 1 to %d", txn.ErrInvalid, l.Days, maxDays)
	case len(l.Hosts) > maxHosts:
		return Pair{}, fmt.Errorf("%w: %d hosts: want at most %d", txn.ErrInvalid, len(l.Hosts), maxHosts)
	}
	now := time.Now()
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: l.Name},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.AddDate(0, 0, l.Days),
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if template.NotAfter.After(a.cert.NotAfter) {
		template.NotAfter = a.cert.NotAfter
	}
	for _, role := range l.Roles {
		n := Name{a.cluster, role, l.Name}
		if err := n.check(); err != nil {
			return Pair{}, err
		}
		template.URIs = append(template.URIs, &url.URL{Scheme: scheme, Host: n.Cluster, Path: "/" + n.Role + "/" + n.Node})
	}
	for _, h := range l.Hosts {
		switch ip := net.ParseIP(h); {
		case ip != nil:
			template.IPAddresses = append(template.IPAddresses, ip)
		case hostname(h):
			template.DNSNames = append(template.DNSNames, h)
		default:
			return Pair{}, fmt.Errorf("%w: host %.300q is neither a name nor an IP address; a port does not belong to it", txn.ErrInvalid, h)
		}
	}
	_, pair, err := sign(template, a)
	return pair, err
}

func hostname(h string) bool {
	for _, c := range h {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '.' && c != '*' {
			return false
		}
	}
	return h != "" && len(h) <= 253 && h[0] != '.' && h[len(h)-1] != '.'
}

// sign makes a key and a certificate for it, signed by a, or self-signed if a is nil.
func sign(template *x509.Certificate, a *Authority) (crypto.Signer, Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, Pair{}, fmt.Errorf("making a key: %w", err)
	}
	parent, signer := template, crypto.Signer(key)
	if a != nil {
		parent, signer = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return nil, Pair{}, fmt.Errorf("making a certificate: %w", err)
	}
	pair, err := encode(der, key)
	return key, pair, err
}

func encode(der []byte, key crypto.Signer) (Pair, error) {
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, fmt.Errorf("encoding a key: %w", err)
	}
	return Pair{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
	}, nil
}
