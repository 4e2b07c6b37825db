package certs

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// The certificates that either side presents at the port between nodes.
func TestPeers(t *testing.T) {
	ours, foreign, impostor := authority(t, "bank"), authority(t, "shop"), authority(t, "bank")
	good := peer(t, issue(t, ours, RolePeer, RoleServer), ours.Pair().Cert)
	now := time.Now()
	// show returns the configurations of a side that accepts anything, like an attacker.
	show := func(p Pair) *tls.Config {
		pair, err := tls.X509KeyPair(p.Cert, p.Key)
		if err != nil {
			t.Fatal(err)
		}
		return &tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true, ClientAuth: tls.RequireAnyClientCert}
	}
	under := func(max uint16) *tls.Config {
		c := show(issue(t, ours, RolePeer))
		c.MaxVersion = max
		return c
	}
	// The authority's key also signs a certificate that names another cluster.
	twoFaced := issue(t, &Authority{cluster: "shop", cert: ours.cert, key: ours.key}, RolePeer)
	for name, tt := range map[string]struct {
		other *tls.Config
		want  error // nil: refused with any error
		ok    bool
	}{
		"a peer":                  {other: show(issue(t, ours, RolePeer)), ok: true},
		"a peer and more":         {other: show(issue(t, ours, RoleClient, RoleServer, RolePeer)), ok: true},
		"another authority":       {other: show(issue(t, foreign, RolePeer)), want: ErrUnknownAuthority},
		"the same name, not ours": {other: show(issue(t, impostor, RolePeer)), want: ErrUnknownAuthority},
		"expired":                 {other: show(issueValid(t, ours, now.Add(-2*time.Hour), now.Add(-time.Hour))), want: ErrExpired},
		"of tomorrow":             {other: show(issueValid(t, ours, now.Add(time.Hour), now.Add(2*time.Hour))), want: ErrExpired},
		"a client":                {other: show(issue(t, ours, RoleClient)), want: ErrNotPeer},
		"a server":                {other: show(issue(t, ours, RoleServer)), want: ErrNotPeer},
		"a peer of another":       {other: show(twoFaced), want: ErrClusterMismatch},
		"the authority's own":     {other: show(ours.Pair()), want: nil},
		"TLS 1.2":                 {other: under(tls.VersionTLS12), want: nil},
		"TLS 1.1":                 {other: under(tls.VersionTLS11), want: nil},
		"no certificate at all":   {other: &tls.Config{InsecureSkipVerify: true}, want: nil},
		"signed by one of ours":   {other: show(chained(t, ours)), want: nil},
		"a host's, without URIs":  {other: show(plain(t, ours)), want: ErrNotPeer},
		"what resembles the role": {other: show(plain(t, ours, lookalikes...)), want: ErrNotPeer},
	} {
		t.Run(name, func(t *testing.T) {
			for side, meet := range map[string]func() (error, error){
				"dials":   func() (error, error) { return handshake(t, good.Server(), tt.other) },
				"accepts": func() (error, error) { s, c := handshake(t, tt.other, good.Client()); return c, s },
			} {
				mine, theirs := meet()
				switch {
				case tt.ok && (mine != nil || theirs != nil):
					t.Errorf("it %s: refused: %v; %v", side, mine, theirs)
				case !tt.ok && (mine == nil || theirs == nil):
					t.Errorf("it %s: let in: here %v, there %v", side, mine, theirs)
				case tt.want != nil && !errors.Is(mine, tt.want):
					t.Errorf("it %s: %v\nwant %v", side, mine, tt.want)
				}
			}
		})
	}
}

// chained is a peer's certificate signed by a certificate that may not sign.
func chained(t *testing.T, a *Authority) Pair {
	middle := issue(t, a, RolePeer)
	pair, err := tls.X509KeyPair(middle.Cert, middle.Key)
	if err != nil {
		t.Fatal(err)
	}
	p := issue(t, &Authority{cluster: a.cluster, cert: pair.Leaf, key: pair.PrivateKey.(crypto.Signer)}, RolePeer)
	p.Cert = append(p.Cert, middle.Cert...)
	return p
}

// lookalikes are URIs that resemble a peer's.
var lookalikes = []*url.URL{
	{Scheme: "https", Host: "bank", Path: "/peer/a1"},
	{Scheme: scheme, Host: "bank", Path: "/peers/a1"},
	{Scheme: scheme, Host: "bank", Path: "/peer/"},
	{Scheme: scheme, Host: "bank", Path: "/peer/a1/b"},
	{Scheme: scheme, Host: "bank", Path: "/client/peer"},
	{Scheme: scheme, Host: "bank.example", Path: "/peer/a1"},
	{Scheme: scheme, User: url.User("u"), Host: "bank", Path: "/peer/a1"},
}

func plain(t *testing.T, a *Authority, uris ...*url.URL) Pair {
	_, p, err := sign(&x509.Certificate{
		DNSNames: []string{"peer"}, URIs: uris, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Errors that can be found without a handshake are returned at once.
func TestOpenPeer(t *testing.T) {
	ours, foreign := authority(t, "bank"), authority(t, "shop")
	good, ca, now := issue(t, ours, RolePeer), ours.Pair().Cert, time.Now()
	for name, tt := range map[string]struct {
		own  Pair
		ca   []byte
		want error
	}{
		"good":                  {good, ca, nil},
		"two authorities":       {good, append(foreign.Pair().Cert, ca...), nil},
		"no files":              {Pair{}, nil, txn.ErrInvalid},
		"no authority":          {good, nil, txn.ErrInvalid},
		"no key":                {Pair{Cert: good.Cert}, ca, txn.ErrInvalid},
		"no certificate":        {Pair{Key: good.Key}, ca, txn.ErrInvalid},
		"garbage":               {Pair{Cert: []byte("x"), Key: good.Key}, ca, txn.ErrInvalid},
		"garbage for authority": {good, []byte("x"), txn.ErrInvalid},
		"larger than any":       {Pair{Cert: make([]byte, maxFile+1), Key: good.Key}, ca, txn.ErrInvalid},
		"another's key":         {Pair{Cert: good.Cert, Key: issue(t, ours, RolePeer).Key}, ca, ErrKeyMismatch},
		"expired":               {issueValid(t, ours, now.Add(-2*time.Hour), now.Add(-time.Hour)), ca, ErrExpired},
		"another authority":     {good, foreign.Pair().Cert, ErrUnknownAuthority},
		"a client":              {issue(t, ours, RoleClient), ca, ErrNotPeer},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := OpenPeer(files(t, t.TempDir(), tt.own, tt.ca), nil)
			if !errors.Is(err, tt.want) || tt.want != nil && !errors.Is(err, txn.ErrInvalid) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}
