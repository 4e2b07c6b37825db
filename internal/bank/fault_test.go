package bank

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	"github.com/txmgr/txmgr/internal/rig"
)

// fault is a kind of fault. inject returns when the fault has ended, and describes it; an error
// means that it was not injected.
type fault struct {
	name   string
	inject func(ctx context.Context, b *testEnv, r *rand.Rand) (what string, err error)
}

var faults = []fault{
	{"kill the coordinator", func(ctx context.Context, b *testEnv, r *rand.Rand) (string, error) {
		return restart(ctx, b.coordinator, r)
	}},
	{"kill the vault", func(ctx context.Context, b *testEnv, r *rand.Rand) (string, error) {
		return restart(ctx, b.vault, r)
	}},
	{"kill a teller", func(ctx context.Context, b *testEnv, r *rand.Rand) (string, error) {
		return restart(ctx, b.clients[r.IntN(clientCount)], r)
	}},
	{"kill the coordinator, and a teller", func(ctx context.Context, b *testEnv, r *rand.Rand) (string, error) {
		// Begins are on their way, and are not repeated: what has committed without them stays unknown.
		b.coordinator.Kill()
		rig.Sleep(ctx, between(r, 0, 300*time.Millisecond))
		what, err := restart(ctx, b.clients[r.IntN(clientCount)], r)
		return what, errors.Join(err, b.coordinator.Restart(ctx, 0))
	}},
	{"kill PostgreSQL", func(ctx context.Context, b *testEnv, r *rand.Rand) (string, error) {
		return b.postgres.restart(ctx, r)
	}},
	{"kill PostgreSQL twice", func(ctx context.Context, b *testEnv, r *rand.Rand) (string, error) {
		return b.postgres.restartTwice(ctx, r)
	}},
	{"promote PostgreSQL's standby", func(ctx context.Context, b *testEnv, _ *rand.Rand) (string, error) {
		return b.postgres.failOver(ctx)
	}},
	{"kill MariaDB", func(ctx context.Context, b *testEnv, r *rand.Rand) (string, error) {
		return restartDatabase(ctx, b.mariadb, r)
	}},
	{"halt a teller", func(ctx context.Context, b *testEnv, r *rand.Rand) (string, error) {
		// Longer than most of its transactions may take.
		return suspend(ctx, b.clients[r.IntN(clientCount)], between(r, 6*time.Second, 8*time.Second))
	}},
	{"halt the vault", func(ctx context.Context, b *testEnv, r *rand.Rand) (string, error) {
		return suspend(ctx, b.vault, between(r, 2*time.Second, 4*time.Second))
	}},
	{"halt MariaDB", suspendMariaDB},
	{"end PostgreSQL's sessions", func(ctx context.Context, b *testEnv, _ *rand.Rand) (string, error) {
		return endSessions(ctx, b.bank, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'")
	}},
	{"end MariaDB's sessions", endMariaDBSessions},
	{"lock MariaDB's tables", lockTables},
	{"repeat requests to the vault", repeatRequests},
	cutFault(inBank), cutFault(inSavings), cutFault(inVault), cutFault("desk"),
	hangFault(inBank), hangFault(inSavings), hangFault(inVault), hangFault("desk"),
}

func restart(ctx context.Context, p *rig.Process, r *rand.Rand) (string, error) {
	down := between(r, 0, 2*time.Second)
	return fmt.Sprintf("%s, down for %v", p.Name, down.Round(time.Millisecond)), p.Restart(ctx, down)
}

func suspend(ctx context.Context, p *rig.Process, d time.Duration) (string, error) {
	return fmt.Sprintf("%s, for %v", p.Name, d.Round(time.Millisecond)), p.Suspend(ctx, d, nil)
}

// database is a server of testdb.
type database interface {
	Kill(context.Context) error
	Start(context.Context) error
}

func restartDatabase(ctx context.Context, db database, r *rand.Rand) (string, error) {
	down := between(r, 0, 2*time.Second)
	if err := db.Kill(ctx); err != nil {
		return "", err
	}
	rig.Sleep(ctx, down)
	return fmt.Sprintf("down for %v", down.Round(time.Millisecond)), db.Start(ctx)
}

func suspendMariaDB(ctx context.Context, b *testEnv, r *rand.Rand) (string, error) {
	pid, d := b.mariadb.PID(), between(r, 2*time.Second, 4*time.Second)
	if pid == 0 {
		return "", errors.New("it is down")
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return "", err
	}
	rig.Sleep(ctx, d)
	return "for " + d.Round(time.Millisecond).String(), syscall.Kill(pid, syscall.SIGCONT)
}

func endSessions(ctx context.Context, db *sql.DB, statement string) (string, error) {
	var n int
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := db.QueryRowContext(ctx, statement).Scan(&n)
	if err == nil && n == 0 {
		err = errors.New("there was none")
	}
	return fmt.Sprintf("%d sessions", n), err
}

func endMariaDBSessions(ctx context.Context, b *testEnv, _ *rand.Rand) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := b.savings.Conn(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	rows, err := conn.QueryContext(ctx, "SELECT ID FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() AND USER = 'root'")
	if err != nil {
		return "", err
	}
	var ids []uint64
	for rows.Next() {
		var id uint64
		if err := rows.Scan(&id); err != nil {
			return "", err
		}
		ids = append(ids, id)
	}
	ended := 0
	for _, id := range ids {
		if _, err := conn.ExecContext(ctx, fmt.Sprintf("KILL CONNECTION %d", id)); err == nil {
			ended++
		}
	}
	if err = errors.Join(rows.Err(), rows.Close()); err == nil && ended == 0 {
		err = errors.New("there was none")
	}
	return fmt.Sprintf("%d sessions", ended), err
}

// lockTables does what a backup does: no transaction can commit.
func lockTables(ctx context.Context, b *testEnv, _ *rand.Rand) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := b.savings.Conn(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "SET lock_wait_timeout = 4"); err != nil {
		return "", err
	}
	if _, err := conn.ExecContext(ctx, "FLUSH TABLES WITH READ LOCK"); err != nil {
		return "", err
	}
	rig.Sleep(ctx, 2*time.Second)
	_, err = conn.ExecContext(ctx, "UNLOCK TABLES")
	return "for 2s", err
}

func cutFault(line string) fault {
	return fault{"cut the line to " + line, func(_ context.Context, b *testEnv, _ *rand.Rand) (string, error) {
		n := b.proxies[line].Disconnect()
		if n == 0 {
			return "", errors.New("there was no connection")
		}
		return fmt.Sprintf("%d ends", n), nil
	}}
}

func hangFault(line string) fault {
	return fault{"hang the line to " + line, func(ctx context.Context, b *testEnv, _ *rand.Rand) (string, error) {
		release := b.proxies[line].Hang()
		rig.Sleep(ctx, 3*time.Second)
		release()
		return "for 3s", nil
	}}
}

// injectFaults injects faults for d, each kind before any is repeated, and returns when the last
// one has ended. It then retries those that could not be injected.
func (b *testEnv) injectFaults(d time.Duration) {
	ctx, cancel := context.WithTimeout(b.t.Context(), d)
	defer cancel()
	r := newRand(b.seed, 's')
	turns := make([]sync.Mutex, len(faults)) // each held while its kind is injected
	var striking sync.WaitGroup
	for n, round := uint64(0), r.Perm(len(faults)); rig.Sleep(ctx, between(r, time.Second, 3*time.Second)); n++ {
		if len(round) == 0 {
			round = []int{r.IntN(len(faults))}
		}
		k, luck := round[0], newRand(b.seed, 'f', n)
		round = round[1:]
		striking.Go(func() {
			turns[k].Lock()
			defer turns[k].Unlock()
			b.injectFault(faults[k], luck)
		})
	}
	striking.Wait()
	for n, f := range faults {
		for try := uint64(0); try < 3 && len(b.events.NeverInjected(f.name)) > 0; try++ {
			b.injectFault(f, newRand(b.seed, 'm', uint64(n), try))
		}
	}
}

func (b *testEnv) injectFault(f fault, rng *rand.Rand) {
	b.events.Note("%s", f.name)
	what, err := f.inject(b.t.Context(), b, rng)
	b.events.FaultInjected(f.name, what, err)
}
