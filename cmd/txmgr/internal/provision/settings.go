package provision

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/txmgr/txmgr/internal/certs"
	"github.com/txmgr/txmgr/txn"
)

// nodeSettings are the settings of a node that later runs need.
type nodeSettings struct {
	Name   string `yaml:"name"`
	API    string `yaml:"api_advertise"`
	Raft   string `yaml:"advertise"`
	Expect int    `yaml:"bootstrap_expect"`
}

// maxSettings is the maximum size of a settings file in bytes.
const maxSettings = 1 << 20

// existingNodes reads the settings of the existing nodes.
func existingNodes(dir string) ([]nodeSettings, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*", "server.yaml"))
	if err != nil {
		return nil, fmt.Errorf("%w: the directory %s: %w", txn.ErrInvalid, dir, err)
	}
	var all []nodeSettings
	for _, path := range paths {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if info.Size() > maxSettings {
			return nil, fmt.Errorf("%w: %s has more than %d bytes", txn.ErrInvalid, path, maxSettings)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var s nodeSettings
		if err := yaml.Unmarshal(data, &s); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", txn.ErrInvalid, path, err)
		}
		if s.Name != "" && s.Raft != "" {
			all = append(all, s)
		}
	}
	return all, nil
}

// bootstrapExpect is bootstrap_expect of a new node; 0 if it joins an existing cluster.
func (k *provisioner) bootstrapExpect(old []nodeSettings) int {
	waiting, of := 0, 0
	for _, s := range old {
		if s.Expect > 0 {
			waiting, of = waiting+1, max(of, s.Expect)
		}
	}
	switch {
	case len(old) == 0:
		return len(k.spec.Nodes)
	case waiting < of: // an earlier run was interrupted
		return of
	}
	return 0
}

func (k *provisioner) settings(n Node, old []nodeSettings) []byte {
	var join []string
	for _, s := range old {
		join = append(join, s.Raft)
	}
	for _, other := range k.spec.Nodes {
		join = append(join, other.RaftAddress())
	}
	slices.Sort(join)
	join = slices.Compact(join)
	var b bytes.Buffer
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# Node %s of cluster %s, for: txmgr server --config server.yaml", n.Name, k.spec.Cluster)
	line("# Relative paths are relative to this file. Any flag of txmgr server can be set here.")
	line("name: %q", n.Name)
	line("data_dir: data")
	line("")
	line("# The address for clients.")
	line("listen: %q", n.APIAddress())
	line("api_advertise: %q", n.URL())
	line("tls_cert: node.pem")
	line("tls_key: node.key")
	line("tls_ca: ca.pem")
	line("# tls_client_ca: ca.pem    # if set, clients need a certificate beside their token")
	line("root_token_file: root.token")
	line("")
	line("# The address for other nodes.")
	line("raft_listen: %q", n.RaftAddress())
	line("advertise: %q", n.RaftAddress())
	line("peer_cert: node.pem")
	line("peer_key: node.key")
	line("peer_ca: ca.pem")
	if e := k.bootstrapExpect(old); e > 0 {
		line("bootstrap_expect: %d", e)
	}
	line("join:")
	for _, a := range join {
		line("  - %q", a)
	}
	return b.Bytes()
}

// client creates the directory of a client: its certificate, and its environment file.
func (k *provisioner) client(name string, nodes []nodeSettings) error {
	cert, key := k.path(name, "client.pem"), k.path(name, "client.key")
	there, err := bothExist(cert, key)
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(k.path(name))
	if err != nil {
		return err
	}
	var urls []string
	for _, s := range nodes {
		urls = append(urls, s.API)
	}
	issue := func() (certs.Pair, error) {
		return k.ca.Issue(certs.Leaf{Name: name, Roles: []string{certs.RoleClient}})
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# For a shell: . %s\n", filepath.Join(dir, "env"))
	for _, v := range [][2]string{
		{"TXMGR_ADDR", strings.Join(urls, ",")},
		{"TXMGR_CACERT", filepath.Join(dir, "ca.pem")},
		{"TXMGR_CERT", filepath.Join(dir, "client.pem")},
		{"TXMGR_KEY", filepath.Join(dir, "client.key")},
	} {
		fmt.Fprintf(&b, "export %s='%s'\n", v[0], strings.ReplaceAll(v[1], "'", `'\''`))
	}
	fmt.Fprintf(&b, "# A token is needed too, for example: txmgr token create %s --role client -q > %s.token\n", name, name)
	return errors.Join(
		k.writePair(cert, key, "the certificate of client "+name, there, issue),
		k.write(k.path(name, "ca.pem"), "the authority, for client "+name, k.ca.Pair().Cert, 0o644),
		k.write(k.path(name, "env"), "the environment of client "+name, b.Bytes(), 0o644),
	)
}
