package soak

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/internal/rig"
	"github.com/txmgr/txmgr/txn/admin"
)

// size is the number of nodes.
const size = 3

// retention is short, so that the outcomes of the load are forgotten soon after it.
const retention = 20 * time.Second

// snapshotBytes is small, so that the log is truncated many times.
const snapshotBytes = 1_000_000

// testEnv is everything that runs.
type testEnv struct {
	t            *testing.T
	dir          string
	program      string
	nodes        []*node
	web          *http.Client // knows the authority, and has the token
	money        *money
	events       rig.EventLog
	hostStalls   rig.HostStalls
	disturbances disturbances
	calls        *recorder
	writes       writePauses
	loadCtx      context.Context // ends with a stall
}

// node is one server.
type node struct {
	*rig.Process
	url  string
	data string
	m    *client.Client // of this node alone; the load does not use it
}

func newTestEnv(t *testing.T) *testEnv {
	b := &testEnv{t: t, dir: t.TempDir(), calls: newRecorder()}
	if b.program = *flagProgram; b.program == "" {
		b.program = filepath.Join(b.dir, "txmgr")
		b.runProgram("go", "build", "-o", b.program, "github.com/txmgr/txmgr/cmd/txmgr")
	}
	b.provision()
	b.form()
	b.money = newMoney(b)
	return b
}

func (b *testEnv) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// runProgram runs a program to its end.
func (b *testEnv) runProgram(name string, args ...string) {
	b.t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		b.t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
}

func (b *testEnv) provisionPath(name string) string { return filepath.Join(b.dir, "papers", name) }

// provision creates certificates and tokens, as users do, and three nodes that do not run.
func (b *testEnv) provision() {
	config := []string{"config", "init", "--dir", b.provisionPath("")}
	for i := range size {
		n := &node{Process: &rig.Process{Name: fmt.Sprintf("n%d", i+1), Path: b.program, OnFailure: b.t.Errorf}}
		var ports [2]string
		for k := range ports {
			address, err := rig.FreeAddress()
			b.must(err)
			_, ports[k], err = net.SplitHostPort(address)
			b.must(err)
		}
		n.url = "https://127.0.0.1:" + ports[0]
		config = append(config, "--node", n.Name+"=127.0.0.1:"+ports[0]+":"+ports[1])
		b.nodes = append(b.nodes, n)
	}
	b.runProgram(b.program, config...)
	token, err := os.ReadFile(b.provisionPath("root.token"))
	b.must(err)
	pem, err := os.ReadFile(b.provisionPath("ca.pem"))
	b.must(err)
	trust := &tls.Config{RootCAs: x509.NewCertPool()}
	trust.RootCAs.AppendCertsFromPEM(pem)
	b.web = &http.Client{Transport: bearer{strings.TrimSpace(string(token)), &http.Transport{TLSClientConfig: trust, DisableKeepAlives: true}}}
	for _, n := range b.nodes {
		n.data = filepath.Join(b.dir, n.Name)
		n.Args = []string{
			"server", "--config", b.provisionPath(filepath.Join(n.Name, "server.yaml")), "--data-dir", n.data,
			"--retention", retention.String(), "--snapshot-bytes", fmt.Sprint(snapshotBytes), "--sweep-interval", "2s", "--log-level", "warn",
		}
		n.Ready = func(ctx context.Context) error {
			_, err := b.get(ctx, n.url+"/readyz")
			return err
		}
		b.must(n.LogTo(b.logs()))
		n.m = b.open(n.url, 5*time.Second, false)
		b.t.Cleanup(n.Kill)
	}
}

// logs is the directory of the nodes' logs.
func (b *testEnv) logs() string {
	if *flagLogs != "" {
		return *flagLogs
	}
	return b.dir
}

// open opens a client with the role admin. It is closed with the test, or before.
func (b *testEnv) open(address string, timeout time.Duration, unary bool) *client.Client {
	b.t.Helper()
	m, err := client.Open(client.Config{
		Address: address, RequestTimeout: timeout, FanoutTimeout: 3 * timeout, Unary: unary,
		CACertFile: b.provisionPath("ca.pem"), TokenFile: b.provisionPath("root.token"),
	})
	b.must(err)
	b.t.Cleanup(func() { _ = m.Close() })
	return m
}

// allURLs is the addresses of all nodes.
func (b *testEnv) allURLs() string {
	var all []string
	for _, n := range b.nodes {
		all = append(all, n.url)
	}
	return strings.Join(all, ",")
}

// form starts all nodes, which wait for each other.
func (b *testEnv) form() {
	errs := make([]error, size)
	var starting sync.WaitGroup
	for i, n := range b.nodes {
		starting.Go(func() { errs[i] = n.Start(b.t.Context()) })
	}
	starting.Wait()
	b.must(errors.Join(errs...))
	b.must(b.checkHealthy(b.t.Context()))
}

// checkHealthy waits until every node follows the same leader, and has applied what that had.
func (b *testEnv) checkHealthy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, rig.WaitTimeout)
	defer cancel()
	return rig.Retry(ctx, func() error {
		all, err := b.statuses(ctx)
		if err != nil {
			return err
		}
		var leader admin.Status
		for _, s := range all {
			if s.Leader && s.Term > leader.Term {
				leader = s
			}
		}
		for i, s := range all {
			if !leader.Leader || s.LeaderID != leader.Node || s.Term != leader.Term || s.LogIndex+100 < leader.LogIndex || s.WaitingFor != "" || len(s.Members) != size {
				return fmt.Errorf("the cluster is not whole: %s follows %q in term %d at entry %d, waits for %q; the leader is %q in term %d at entry %d",
					b.nodes[i].Name, s.LeaderID, s.Term, s.LogIndex, s.WaitingFor, leader.Node, leader.Term, leader.LogIndex)
			}
		}
		return nil
	})
}

// statuses reads the status of every node.
func (b *testEnv) statuses(ctx context.Context) ([]admin.Status, error) {
	all, errs := make([]admin.Status, size), make([]error, size)
	var asking sync.WaitGroup
	for i, n := range b.nodes {
		asking.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
			defer cancel()
			all[i], errs[i] = n.m.Admin().Status(ctx)
		})
	}
	asking.Wait()
	return all, errors.Join(errs...)
}

// roles returns the leader and the others.
func (b *testEnv) roles(ctx context.Context) (leader *node, followers []*node, err error) {
	all, err := b.statuses(ctx)
	for i, s := range all {
		if s.Leader && leader == nil {
			leader = b.nodes[i]
		} else {
			followers = append(followers, b.nodes[i])
		}
	}
	if leader == nil {
		err = errors.Join(errors.New("no node leads"), err)
	}
	return leader, followers, err
}
