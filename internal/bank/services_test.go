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
	"github.com/txmgr/txmgr/internal/relay"
	"github.com/txmgr/txmgr/internal/rig"
)

func (b *bed) build() error {
	build := exec.Command("go", "build", "-o", filepath.Join(b.dir, "txmgr"), "github.com/txmgr/txmgr/cmd/txmgr")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building txmgr: %w\n%s", err, out)
	}
	return nil
}

// place gives everybody an address, and puts relays before those that are called.
func (b *bed) place() {
	addresses := make([]string, 2+tellers)
	for i := range addresses {
		var err error
		addresses[i], err = rig.FreeAddress()
		b.must(err)
	}
	b.desk, b.service, b.counters = addresses[0], addresses[1], addresses[2:]
	for name, to := range map[string]string{
		"desk": b.desk, inVault: b.service,
		inBank: b.postgres.front.Address(), inSavings: fmt.Sprintf("127.0.0.1:%d", b.mariadb.Port()),
	} {
		r, err := relay.New("127.0.0.1:0", to)
		b.must(err)
		b.relays[name] = r
		b.t.Cleanup(r.Close)
	}
}

// startCoordinator starts it with small snapshots and a busy sweep.
func (b *bed) startCoordinator() {
	b.coordinator = b.process("coordinator", filepath.Join(b.dir, "txmgr"), answers("http://"+b.desk+"/readyz", http.StatusOK))
	b.coordinator.Args = []string{
		"server", "--data-dir", filepath.Join(b.dir, "data"), "--listen", b.desk,
		"--log-level", "warn", "--sweep-interval", "1s", "--snapshot-bytes", "4000000",
	}
	b.must(b.coordinator.Start(b.t.Context()))
	var err error
	b.m, err = client.Open(client.Config{Address: "http://" + b.desk, RequestTimeout: rig.Patience})
	b.must(err)
	b.t.Cleanup(func() { _ = b.m.Close() })
}

func (b *bed) startVault() {
	b.vault = b.process("vault", b.self(), answers("http://"+b.service, 0))
	b.vault.Env = b.role(roleVault, func(uint64) any {
		return vaultConfig{Address: b.service, Database: b.vaultDSN(), Postgres: b.vaultPostgres}
	})
	b.must(b.vault.Start(b.t.Context()))
}

// placeTellers makes the tellers and does not start them. The first one has little
// rig.Patience.
func (b *bed) placeTellers() {
	for i, address := range b.counters {
		p := b.process(fmt.Sprintf("teller-%d", i+1), b.self(), answers("http://"+address, 0))
		p.Line = func(line string) {
			if err := b.ledger.hear(line); err != nil {
				b.t.Errorf("teller %d: %v", i+1, err)
			}
		}
		c := tellerConfig{
			Desk: "http://" + b.relays["desk"].Address(), Bank: b.postgres.DSN(inBank), Savings: b.mariadb.DSN(inSavings),
			Address: address, Peers: slices.Delete(slices.Clone(b.counters), i, i+1), Seed: b.seed + uint64(i), Workers: workers,
		}
		if i == 0 {
			c.Patience = 400 * time.Millisecond
		}
		p.Env = b.role(roleTeller, func(life uint64) any { c.Life = life; return c })
		b.tellers = append(b.tellers, p)
	}
}

func (b *bed) process(name, path string, ready func(context.Context) error) *rig.Process {
	p := &rig.Process{Name: name, Path: path, Ready: ready, Fail: b.t.Errorf}
	b.must(p.Keep(*flagLogs))
	b.t.Cleanup(p.Kill)
	return p
}

// self is this program, to be started in a role.
func (b *bed) self() string {
	path, err := os.Executable()
	b.must(err)
	return path
}

// role gives the environment of this program in a role. config is told how often it
// was asked before.
func (b *bed) role(role string, config func(life uint64) any) func() []string {
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

// answers reports whether a server answers, and as it should if status is not zero.
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
