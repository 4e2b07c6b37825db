package bank

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/internal/faultproxy"
	"github.com/txmgr/txmgr/internal/rig"
)

func (b *testEnv) build() error {
	build := exec.Command("go", "build", "-o", filepath.Join(b.dir, "txmgr"), "github.com/txmgr/txmgr/cmd/txmgr")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building txmgr: %w\n%s", err, out)
	}
	return nil
}

// assignAddresses assigns all addresses, and puts proxies before the servers.
func (b *testEnv) assignAddresses() {
	addresses := make([]string, 2+clientCount)
	for i := range addresses {
		var err error
		addresses[i], err = rig.FreeAddress()
		b.must(err)
	}
	b.coordinatorAddr, b.vaultAddr, b.clientAddrs = addresses[0], addresses[1], addresses[2:]
	for name, to := range map[string]string{
		"desk": b.coordinatorAddr, inVault: b.vaultAddr,
		inBank: b.postgres.proxy.Address(), inSavings: fmt.Sprintf("127.0.0.1:%d", b.mariadb.Port()),
	} {
		r, err := faultproxy.New("127.0.0.1:0", to)
		b.must(err)
		b.proxies[name] = r
		b.t.Cleanup(r.Close)
	}
}

// startCoordinator starts it with small snapshots and a frequent sweep.
func (b *testEnv) startCoordinator() {
	b.coordinator = b.process("coordinator", filepath.Join(b.dir, "txmgr"), answers("http://"+b.coordinatorAddr+"/readyz", http.StatusOK))
	b.coordinator.Args = []string{
		"server", "--data-dir", filepath.Join(b.dir, "data"), "--listen", b.coordinatorAddr,
		"--log-level", "warn", "--sweep-interval", "1s", "--snapshot-bytes", "4000000",
	}
	b.must(b.coordinator.Start(b.t.Context()))
	var err error
	b.m, err = client.Open(client.Config{Address: "http://" + b.coordinatorAddr, RequestTimeout: rig.WaitTimeout})
	b.must(err)
	b.t.Cleanup(func() { _ = b.m.Close() })
}

func (b *testEnv) startVault() {
	b.vault = b.process("vault", b.self(), answers("http://"+b.vaultAddr, 0))
	b.vault.Env = b.role(roleVault, func(uint64) any {
		return vaultConfig{Address: b.vaultAddr, Database: b.vaultDSN(), Postgres: b.vaultPostgres}
	})
	b.must(b.vault.Start(b.t.Context()))
}

// newClients creates the clients and does not start them. The first one has a short Timeout.
func (b *testEnv) newClients() {
	for i, address := range b.clientAddrs {
		p := b.process(fmt.Sprintf("teller-%d", i+1), b.self(), answers("http://"+address, 0))
		p.OnLine = func(line string) {
			if err := b.history.record(line); err != nil {
				b.t.Errorf("teller %d: %v", i+1, err)
			}
		}
		c := clientConfig{
			Coordinator: "http://" + b.proxies["desk"].Address(), Bank: b.postgres.DSN(inBank), Savings: b.mariadb.DSN(inSavings),
			Address: address, Peers: slices.Delete(slices.Clone(b.clientAddrs), i, i+1), Seed: b.seed + uint64(i), Workers: clientWorkers,
		}
		if i == 0 {
			c.Timeout = 400 * time.Millisecond
		}
		p.Env = b.role(roleClient, func(life uint64) any { c.Life = life; return c })
		b.clients = append(b.clients, p)
	}
}

func (b *testEnv) process(name, path string, ready func(context.Context) error) *rig.Process {
	p := &rig.Process{Name: name, Path: path, Ready: ready, OnFailure: b.t.Errorf}
	b.must(p.LogTo(*flagLogs))
	b.t.Cleanup(p.Kill)
	return p
}

// self is this program, for a start in a role.
func (b *testEnv) self() string {
	path, err := os.Executable()
	b.must(err)
	return path
}

// role returns the environment of this program in a role. config receives the number of earlier
// calls.
func (b *testEnv) role(role string, config func(life uint64) any) func() []string {
	var life uint64
	return func() []string {
		text, err := json.Marshal(config(life))
		if err != nil {
			b.t.Error(err)
		}
		life++
		return []string{roleVariable + "=" + role, configVariable + "=" + string(text)}
	}
}

// answers reports whether a server answers, and with status if that is not zero.
func answers(url string, status int) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		_ = answer.Body.Close() // it is not read
		if status != 0 && answer.StatusCode != status {
			return errors.New(answer.Status)
		}
		return nil
	}
}
