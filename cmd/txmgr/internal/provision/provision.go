package provision

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/txmgr/txmgr/internal/certs"
	"github.com/txmgr/txmgr/txn"
)

// Spec describes the files to provide.
type Spec struct {
	Dir     string   // created if it is missing
	Cluster string   // the name in certificates; empty: that of the existing authority, or "txmgr"
	Nodes   []Node   // at most 99
	Clients []string // names of client certificates
}

// File is one provisioned file.
type File struct {
	Path string `json:"path"`
	What string `json:"what"`
	Made bool   `json:"made"` // false if it existed already
	// Changed means that the file existed, and nodes were added to it.
	Changed bool `json:"changed"`
}

// MaxNodes is the maximum number of nodes of a [Spec].
const MaxNodes = 99

// Make creates the files that are missing and lists all. Errors are [txn.ErrInvalid] and those of
// the file system; files that were created before an error stay.
func Make(p Spec) ([]File, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	k := &provisioner{spec: p}
	if err := k.authority(); err != nil {
		return k.files, err
	}
	root, err := k.rootToken()
	if err != nil {
		return k.files, err
	}
	old, err := existingNodes(p.Dir)
	if err != nil {
		return k.files, err
	}
	for _, n := range p.Nodes {
		if err := k.node(n, root, old); err != nil {
			return k.files, fmt.Errorf("node %s: %w", n.Name, err)
		}
	}
	if old, err = existingNodes(p.Dir); err != nil {
		return k.files, err
	}
	for _, c := range p.Clients {
		if err := k.client(c, old); err != nil {
			return k.files, fmt.Errorf("client %s: %w", c, err)
		}
	}
	return k.files, k.addToClients()
}

func (p Spec) check() error {
	switch {
	case p.Dir == "":
		return fmt.Errorf("%w: no directory given", txn.ErrInvalid)
	case len(p.Nodes) == 0 || len(p.Nodes) > MaxNodes:
		return fmt.Errorf("%w: %d nodes: want 1 to %d", txn.ErrInvalid, len(p.Nodes), MaxNodes)
	}
	taken := map[string]string{}
	take := func(what, by string) error {
		if other, ok := taken[what]; ok {
			return fmt.Errorf("%w: %s and %s cannot both have %s", txn.ErrInvalid, other, by, what)
		}
		taken[what] = by
		return nil
	}
	for _, n := range p.Nodes {
		if err := errors.Join(take("the name "+n.Name, "a node"), take("the address "+n.APIAddress(), n.Name), take("the address "+n.RaftAddress(), n.Name)); err != nil {
			return err
		}
	}
	for _, c := range p.Clients {
		if c == "" || c == "." || c == ".." || strings.Trim(c, nameLetters) != "" {
			return fmt.Errorf("%w: client %q is not a name of 1 to 64 letters, digits and -._", txn.ErrInvalid, c)
		}
		if err := take("the name "+c, "a client"); err != nil {
			return err
		}
	}
	return nil
}

// provisioner is one call of [Make].
type provisioner struct {
	spec  Spec
	ca    *certs.Authority
	files []File
}

func (k *provisioner) path(elem ...string) string {
	return filepath.Join(append([]string{k.spec.Dir}, elem...)...)
}

// authority loads the existing authority, or creates one.
func (k *provisioner) authority() error {
	cert, key := k.path("ca.pem"), k.path("ca.key")
	there, err := bothExist(cert, key)
	if err != nil {
		return err
	}
	if there {
		if k.ca, err = certs.LoadAuthority(cert, key); err != nil {
			return err
		}
		if c := k.spec.Cluster; c != "" && c != k.ca.Cluster() {
			return fmt.Errorf("%w: %s is the authority of cluster %s, not of %s: use another directory", txn.ErrInvalid, cert, k.ca.Cluster(), c)
		}
	} else {
		name := k.spec.Cluster
		if name == "" {
			name = "txmgr"
		}
		if k.ca, err = certs.NewAuthority(name); err != nil {
			return err
		}
	}
	k.spec.Cluster = k.ca.Cluster()
	return k.writePair(cert, key, "the authority of cluster "+k.spec.Cluster, there, func() (certs.Pair, error) { return k.ca.Pair(), nil })
}

// writePair writes a certificate and its key, the key first: a certificate without a key would
// never be completed by a later run.
func (k *provisioner) writePair(cert, key, what string, there bool, issue func() (certs.Pair, error)) error {
	var p certs.Pair
	if !there {
		var err error
		if p, err = issue(); err != nil {
			return err
		}
	}
	if err := k.write(key, "the key of "+what, p.Key, 0o600); err != nil {
		return err
	}
	return k.write(cert, what, p.Cert, 0o644)
}

// bothExist reports whether two files exist of which neither is of use without the other.
func bothExist(a, b string) (bool, error) {
	_, errA := os.Stat(a)
	_, errB := os.Stat(b)
	switch {
	case errA == nil && errB == nil:
		return true, nil
	case errors.Is(errA, fs.ErrNotExist) && errors.Is(errB, fs.ErrNotExist):
		return false, nil
	case errors.Is(errA, fs.ErrNotExist):
		a, b = b, a
		fallthrough
	case errors.Is(errB, fs.ErrNotExist):
		return false, fmt.Errorf("%w: %s exists and %s does not: restore it, or delete both", txn.ErrInvalid, a, b)
	}
	return false, errors.Join(errA, errB)
}

// write creates a file unless it exists.
func (k *provisioner) write(path, what string, data []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		k.files = append(k.files, File{Path: path, What: what})
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	k.files = append(k.files, File{Path: path, What: what, Made: true})
	return nil
}

// rootToken returns the root token, which all nodes share.
func (k *provisioner) rootToken() (string, error) {
	path := k.path("root.token")
	secret := "txm_root_" + strings.ToLower(rand.Text()+rand.Text())
	if err := k.write(path, "the root token, which may do everything", []byte(secret+"\n"), 0o600); err != nil {
		return "", err
	}
	data, err := os.ReadFile(path)
	return string(data), err
}

// node creates the directory of a node.
func (k *provisioner) node(n Node, root string, old []nodeSettings) error {
	for _, s := range old {
		if s.Name == n.Name {
			if s.Raft != n.RaftAddress() {
				return fmt.Errorf("%w: its settings exist, with the address %s, not %s: change %s manually", txn.ErrInvalid, s.Raft, n.RaftAddress(), k.path(n.Name, "server.yaml"))
			}
		} else if s.Raft == n.RaftAddress() {
			return fmt.Errorf("%w: %s has the address %s", txn.ErrInvalid, s.Name, s.Raft)
		}
	}
	cert, key := k.path(n.Name, "node.pem"), k.path(n.Name, "node.key")
	there, err := bothExist(cert, key)
	if err != nil {
		return err
	}
	issue := func() (certs.Pair, error) {
		return k.ca.Issue(certs.Leaf{Name: n.Name, Roles: []string{certs.RolePeer, certs.RoleServer}, Hosts: k.hosts(n)})
	}
	return errors.Join(
		k.writePair(cert, key, "the certificate of node "+n.Name, there, issue),
		k.write(k.path(n.Name, "ca.pem"), "the authority, for node "+n.Name, k.ca.Pair().Cert, 0o644),
		k.write(k.path(n.Name, "root.token"), "the root token, for node "+n.Name, []byte(root), 0o600),
		k.write(k.path(n.Name, "server.yaml"), "the settings of node "+n.Name, k.settings(n, old), 0o644),
	)
}

// hosts are the host names by which clients may call a node.
func (k *provisioner) hosts(n Node) []string {
	all := []string{n.Host, "localhost", "127.0.0.1", "::1"}
	slices.Sort(all)
	return slices.Compact(all)
}
