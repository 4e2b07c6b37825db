package provision

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/internal/certs"
	"github.com/txmgr/txmgr/txn"
)

func TestParseNode(t *testing.T) {
	for s, want := range map[string]Node{
		"a=10.0.0.1":           {"a", "10.0.0.1", 7460, 7461},
		"a=host:8000":          {"a", "host", 8000, 8001},
		"n-1.x_=host:8000:9":   {"n-1.x_", "host", 8000, 9},
		"a=[::1]":              {"a", "::1", 7460, 7461},
		"a=[fe80::1]:80":       {"a", "fe80::1", 80, 81},
		"a=[2001:db8::1]:80:7": {"a", "2001:db8::1", 80, 7},
	} {
		if got, err := ParseNode(s); err != nil || got != want {
			t.Errorf("%q: %+v, %v, want %+v", s, got, err, want)
		}
	}
	for _, s := range []string{
		"", "a", "=h", "a=", "a=:1", "../a=h", "..=h", "a/b=h", "a=h:0", "a=h:65536", "a=h:x", "a=h:1:2:3", "a=h:1:1", "a=h:65535", "a=[::1", "a=h/x", "a=0.0.0.0", "a=[::]:80",
		strings.Repeat("a", 65) + "=h",
	} {
		if n, err := ParseNode(s); !errors.Is(err, txn.ErrInvalid) {
			t.Errorf("%q: %+v, %v", s, n, err)
		}
	}
}

func nodes(t *testing.T, specs ...string) (all []Node) {
	t.Helper()
	for _, s := range specs {
		n, err := ParseNode(s)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, n)
	}
	return all
}

// tree is every file under a directory.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		all[strings.TrimPrefix(path, dir)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Invariants 1 and 2: missing files are created, existing ones stay, and secrets are readable by
// their owner only.
func TestEveryInterruptionIsMended(t *testing.T) {
	dir := t.TempDir()
	plan := Spec{Dir: dir, Cluster: "shop", Nodes: nodes(t, "a=10.0.0.1", "b=10.0.0.2", "c=10.0.0.3"), Clients: []string{"app"}}
	files, err := Make(plan)
	if err != nil {
		t.Fatal(err)
	}
	whole := tree(t, dir)
	if len(whole) != len(files) {
		t.Errorf("%d files, %d said", len(whole), len(files))
	}
	for path, text := range whole {
		info, err := os.Stat(dir + path)
		if err != nil {
			t.Fatal(err)
		}
		if secret := strings.Contains(text, "PRIVATE KEY") || strings.Contains(text, "txm_root"); secret != (info.Mode().Perm() == 0o600) {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
	}
	for path := range whole {
		if strings.HasSuffix(path, ".pem") && !strings.HasSuffix(path, "/ca.pem") || strings.HasSuffix(path, ".key") || path == "/ca.pem" {
			continue // half of a pair: the operator has to check it
		}
		if path == "/root.token" {
			continue // a new one would not be the one of the nodes
		}
		if err := os.Remove(dir + path); err != nil {
			t.Fatal(err)
		}
		if _, err := Make(plan); err != nil {
			t.Errorf("without %s: %v", path, err)
		}
		if diff := cmp.Diff(whole, tree(t, dir)); diff != "" {
			t.Errorf("without %s: (-before +after)\n%s", path, diff)
		}
	}
	for _, path := range []string{"/ca.key", "/ca.pem", "/a/node.key", "/b/node.pem", "/app/client.key"} {
		if err := os.Rename(dir+path, dir+path+".away"); err != nil {
			t.Fatal(err)
		}
		if _, err := Make(plan); !errors.Is(err, txn.ErrInvalid) || !strings.Contains(err.Error(), "restore it") {
			t.Errorf("without %s: %v", path, err)
		}
		if err := os.Rename(dir+path+".away", dir+path); err != nil {
			t.Fatal(err)
		}
	}
}

// Nodes and servers accept the certificates.
func TestCertificates(t *testing.T) {
	dir := t.TempDir()
	if _, err := Make(Spec{Dir: dir, Cluster: "shop", Nodes: nodes(t, "a=db.example"), Clients: []string{"app"}}); err != nil {
		t.Fatal(err)
	}
	in := func(elem ...string) string { return filepath.Join(append([]string{dir}, elem...)...) }
	if _, err := certs.OpenPeer(certs.Files{Cert: in("a", "node.pem"), Key: in("a", "node.key"), CA: in("a", "ca.pem")}, nil); err != nil {
		t.Error(err)
	}
	if _, err := certs.OpenPeer(certs.Files{Cert: in("app", "client.pem"), Key: in("app", "client.key"), CA: in("app", "ca.pem")}, nil); err == nil {
		t.Error("a client is taken for a node")
	}
	data, err := os.ReadFile(in("a", "node.pem"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(data)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	want := []certs.Name{{Cluster: "shop", Role: certs.RolePeer, Node: "a"}, {Cluster: "shop", Role: certs.RoleServer, Node: "a"}}
	if diff := cmp.Diff(want, certs.Names(cert)); diff != "" {
		t.Error(diff)
	}
	for _, host := range []string{"db.example", "localhost", "127.0.0.1"} {
		if err := cert.VerifyHostname(host); err != nil {
			t.Error(err)
		}
	}
}

func TestPlansThatCannotBe(t *testing.T) {
	ok := nodes(t, "a=10.0.0.1")
	for says, p := range map[string]Spec{
		"no directory":      {Nodes: ok},
		"0 nodes":           {Dir: t.TempDir()},
		"the name a":        {Dir: t.TempDir(), Nodes: nodes(t, "a=1.1.1.1", "a=1.1.1.2")},
		"the address":       {Dir: t.TempDir(), Nodes: nodes(t, "a=1.1.1.1:5:6", "b=1.1.1.1:6:7")},
		"is not a name":     {Dir: t.TempDir(), Nodes: ok, Clients: []string{"../x"}},
		"cannot both":       {Dir: t.TempDir(), Nodes: ok, Clients: []string{"a"}},
		`cluster id "A"`:    {Dir: t.TempDir(), Nodes: ok, Cluster: "A"},
		"not-a-directory":   {Dir: file(t, "not-a-directory"), Nodes: ok},
		"more than 1048576": {Dir: large(t), Nodes: ok},
	} {
		if _, err := Make(p); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("want %q: %v", says, err)
		}
	}
}

func file(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func large(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "x", "server.yaml"), make([]byte, maxSettings+1), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}
