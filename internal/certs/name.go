package certs

import (
	"crypto/x509"
	"fmt"
	"net/url"
	"strings"

	"github.com/txmgr/txmgr/txn"
)

// The roles that a certificate can give.
const (
	RolePeer   = "peer"   // takes part in the cluster
	RoleServer = "server" // serves the API
	RoleClient = "client" // calls the API
)

const (
	scheme     = "txmgr"
	maxCluster = 63 // a label of a domain name: it is the host of the URI
	maxName    = 64
)

// Name is one name and role that a certificate gives its owner.
type Name struct {
	Cluster string // the cluster id
	Role    string // one of the roles
	Node    string // the owner's name within it
}

// String returns the URI.
func (n Name) String() string {
	return scheme + "://" + n.Cluster + "/" + n.Role + "/" + n.Node
}

// Names returns the names in the txmgr URIs of a certificate; other and malformed URIs are
// ignored.
func Names(cert *x509.Certificate) []Name {
	var names []Name
	for _, u := range cert.URIs {
		if n, ok := parseName(u); ok {
			names = append(names, n)
		}
	}
	return names
}

func parseName(u *url.URL) (Name, bool) {
	if u.Scheme != scheme || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return Name{}, false
	}
	role, node, ok := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	n := Name{Cluster: u.Host, Role: role, Node: node}
	return n, ok && n.check() == nil
}

func (n Name) check() error {
	if err := checkCluster(n.Cluster); err != nil {
		return err
	}
	if n.Role != RolePeer && n.Role != RoleServer && n.Role != RoleClient {
		return fmt.Errorf("%w: role %q: want %s, %s or %s", txn.ErrInvalid, n.Role, RolePeer, RoleServer, RoleClient)
	}
	letters := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-._", c)
	}
	if n.Node == "" || len(n.Node) > maxName || strings.ContainsFunc(n.Node, func(c rune) bool { return !letters(c) }) {
		return fmt.Errorf("%w: name %q: want 1 to %d letters, digits and -._", txn.ErrInvalid, n.Node, maxName)
	}
	return nil
}

func checkCluster(id string) error {
	bad := func(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' }
	if id == "" || len(id) > maxCluster || strings.ContainsFunc(id, bad) || id[0] == '-' || id[len(id)-1] == '-' {
		return fmt.Errorf("%w: cluster id %q: want 1 to %d small letters, digits and, between them, hyphens", txn.ErrInvalid, id, maxCluster)
	}
	return nil
}
