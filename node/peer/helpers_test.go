package peer

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/txmgr/txmgr/internal/certs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testTimeout is for what should take milliseconds, on a machine that is busy.
const testTimeout = 20 * time.Second

// node is one end of the conversations under test.
type node struct {
	*Server
	log *logBuffer

	mu      sync.Mutex // guards all below
	self    Identity
	removed []string
}

func (n *node) identity() Identity {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.self
}

func (n *node) update(change func(*Identity)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change(&n.self)
}

func (n *node) remove(id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.removed = append(n.removed, id)
}

func (n *node) admit(other Identity) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if slices.Contains(n.removed, other.ID) {
		return ErrRemoved
	}
	return nil
}

// start opens the server of a node of cluster "c" on loopback, and closes it when the
// test ends.
func start(t testing.TB, id string, change ...func(*Config)) *node {
	t.Helper()
	n := &node{self: Identity{ID: id, Name: "name of " + id, Cluster: "c"}, log: &logBuffer{}}
	conf := Config{Listen: "127.0.0.1:0", Self: n.identity, Admit: n.admit, Logger: slog.New(slog.NewTextHandler(n.log, nil))}
	for _, c := range change {
		c(&conf)
	}
	p, err := Open(conf)
	if err != nil {
		t.Fatal(err)
	}
	n.Server = p
	n.update(func(i *Identity) { i.RaftAddr = p.Addr() })
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("closing %s: %v", id, err)
		}
	})
	return n
}

// logBuffer is a log that tests read.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *logBuffer) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *logBuffer) count(s string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Count(r.text.Bytes(), []byte(s))
}

func (r *logBuffer) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

// dialRaw opens a TCP connection that knows nothing of the protocol.
func dialRaw(t testing.TB, p *Server, says string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(testTimeout))
	// It may be closed before all is written, which is right.
	_, _ = io.WriteString(c, says)
	return c
}

// authority makes one for tests.
func authority(t testing.TB, cluster string) *certs.Authority {
	t.Helper()
	a, err := certs.NewAuthority(cluster)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// certified gives a node files of the authority, with the roles.
func certified(t testing.TB, a *certs.Authority, name string, roles ...string) func(*Config) {
	t.Helper()
	own, err := a.Issue(certs.Leaf{Name: name, Roles: roles})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	f := &certs.Files{Cert: filepath.Join(dir, "own.crt"), Key: filepath.Join(dir, "own.key"), CA: filepath.Join(dir, "ca.crt")}
	for path, data := range map[string][]byte{f.Cert: own.Cert, f.Key: own.Key, f.CA: a.Pair().Cert} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return func(c *Config) { c.TLS = f }
}
