package certs

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"
)

// verifyChain checks a chain as the other side sent it, leaf first.
func verifyChain(chain []*x509.Certificate, roots *x509.CertPool, usage x509.ExtKeyUsage) error {
	if len(chain) == 0 {
		return ErrNoCertificate
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{usage}})
	return explain(chain[0], err)
}

// explain converts an error of package x509 into one of this package.
func explain(leaf *x509.Certificate, err error) error {
	var invalid x509.CertificateInvalidError
	var unknown x509.UnknownAuthorityError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Errorf("%w: %s: %w", ErrExpired, describe(leaf), err)
	case errors.As(err, &unknown):
		return fmt.Errorf("%w: %s: %w", ErrUnknownAuthority, describe(leaf), err)
	}
	return fmt.Errorf("certificate %s: %w", describe(leaf), err)
}

// verifyPeer checks that a chain belongs to a peer of the cluster.
func verifyPeer(chain []*x509.Certificate, roots *x509.CertPool, usage x509.ExtKeyUsage, cluster string) error {
	if err := verifyChain(chain, roots, usage); err != nil {
		return err
	}
	other := ""
	for _, n := range Names(chain[0]) {
		switch {
		case n.Role != RolePeer:
		case n.Cluster == cluster:
			return nil
		default:
			other = n.Cluster
		}
	}
	if other != "" {
		return fmt.Errorf("%w: %s: it is a peer of %q, and this node is one of %q", ErrClusterMismatch, describe(chain[0]), other, cluster)
	}
	return fmt.Errorf("%w: %s: want a URI %s", ErrNotPeer, describe(chain[0]), Name{cluster, RolePeer, "<name>"})
}

// describe describes a certificate for the operator: its names, its issuer, and the end of
// its validity.
func describe(c *x509.Certificate) string {
	var says []string
	for _, n := range Names(c) {
		says = append(says, n.String())
	}
	if len(says) == 0 {
		says = append(says, c.Subject.String())
	}
	return fmt.Sprintf("%.300q of %.100q, valid %s to %s", strings.Join(says, " "), c.Issuer.String(),
		c.NotBefore.UTC().Format(time.RFC3339), c.NotAfter.UTC().Format(time.RFC3339))
}
