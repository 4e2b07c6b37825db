package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/txn"
)

func leaf(t *testing.T, p Pair) *x509.Certificate {
	t.Helper()
	pair, err := tls.X509KeyPair(p.Cert, p.Key)
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf
}

func TestAuthority(t *testing.T) {
	made := authority(t, "bank-1")
	f := files(t, t.TempDir(), made.Pair(), nil)
	loaded, err := LoadAuthority(f.Cert, f.Key)
	if err != nil {
		t.Fatal(err)
	}
	if loaded.Cluster() != "bank-1" || !bytes.Equal(loaded.Pair().Cert, made.Pair().Cert) {
		t.Errorf("loaded: cluster %q", loaded.Cluster())
	}
	if years := time.Until(leaf(t, made.Pair()).NotAfter).Hours() / 24 / 365; years < 9.9 || years > 10.1 {
		t.Errorf("an authority for %.1f years", years)
	}
	p, err := loaded.Issue(Leaf{Name: "a1", Roles: []string{RolePeer, RoleServer}, Hosts: []string{"10.0.0.1", "::1", "a1.example"}, Days: 30})
	if err != nil {
		t.Fatal(err)
	}
	c := leaf(t, p)
	want := []Name{{"bank-1", RolePeer, "a1"}, {"bank-1", RoleServer, "a1"}}
	if diff := cmp.Diff(want, Names(c)); diff != "" {
		t.Error(diff)
	}
	for _, host := range []string{"10.0.0.1", "::1", "a1.example"} {
		if err := c.VerifyHostname(host); err != nil {
			t.Error(err)
		}
	}
	if days := time.Until(c.NotAfter).Hours() / 24; days < 29 || days > 31 {
		t.Errorf("good for %.1f days", days)
	}
	if leaf(t, issue(t, made, RolePeer)).SerialNumber.Cmp(leaf(t, issue(t, loaded, RolePeer)).SerialNumber) == 0 {
		t.Error("two certificates with one serial number")
	}
	// A certificate of the loaded authority and one of the original verify each other.
	if s, c := handshake(t, peer(t, p, loaded.Pair().Cert).Server(), peer(t, issue(t, made, RolePeer), made.Pair().Cert).Client()); s != nil || c != nil {
		t.Errorf("peers of one authority: %v; %v", s, c)
	}
}

func TestAuthorityEndsFirst(t *testing.T) {
	a := authority(t, "bank")
	p, err := a.Issue(Leaf{Name: "a1", Roles: []string{RolePeer}, Days: maxDays})
	if err != nil {
		t.Fatal(err)
	}
	if c := leaf(t, p); c.NotAfter.After(a.cert.NotAfter) {
		t.Errorf("good until %v, its authority until %v", c.NotAfter, a.cert.NotAfter)
	}
}

func TestRefused(t *testing.T) {
	for _, id := range []string{"", "Bank", "a_b", "-a", "a-", "a.b", "a/b", strings.Repeat("a", 64), "ä"} {
		if _, err := NewAuthority(id); !errors.Is(err, txn.ErrInvalid) {
			t.Errorf("cluster id %q: %v", id, err)
		}
	}
	a := authority(t, "bank")
	peers := []string{RolePeer}
	for name, l := range map[string]Leaf{
		"no name":            {Roles: peers},
		"a name with slash":  {Name: "a/b", Roles: peers},
		"a name with space":  {Name: "a b", Roles: peers},
		"a long name":        {Name: strings.Repeat("a", 65), Roles: peers},
		"no role":            {Name: "a"},
		"an unknown role":    {Name: "a", Roles: []string{"admin"}},
		"negative days":      {Name: "a", Roles: peers, Days: -1},
		"too many days":      {Name: "a", Roles: peers, Days: maxDays + 1},
		"a host with a port": {Name: "a", Roles: peers, Hosts: []string{"db:7461"}},
		"an empty host":      {Name: "a", Roles: peers, Hosts: []string{""}},
		"too many hosts":     {Name: "a", Roles: peers, Hosts: make([]string, maxHosts+1)},
	} {
		if _, err := a.Issue(l); !errors.Is(err, txn.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	f := files(t, t.TempDir(), issue(t, a, RolePeer), nil)
	if _, err := LoadAuthority(f.Cert, f.Key); !errors.Is(err, txn.ErrInvalid) {
		t.Errorf("a leaf as authority: %v", err)
	}
}
