package bank

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/internal/faultproxy"
	"github.com/txmgr/txmgr/internal/rig"
	"github.com/txmgr/txmgr/internal/testdb"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

const (
	clientCount   = 4
	clientWorkers = 8 // of each client
)

// testEnv is everything that runs.
type testEnv struct {
	t    *testing.T
	seed uint64
	dir  string

	postgres *servers
	mariadb  *testdb.MariaDB
	// To read, and for manual branches. They do not use the proxies.
	bank, savings, vaultDB *sql.DB
	vaultPostgres          bool // whether the vault's database is PostgreSQL

	coordinator, vault *rig.Process
	clients            []*rig.Process
	proxies            map[string]*faultproxy.Proxy // by participant, and "desk" before the coordinator
	barrierDeleter     *barrierDeleter
	coordinatorAddr    string         // the coordinator's own address
	vaultAddr          string         // the vault's
	clientAddrs        []string       // the clients' addresses, for each other
	m                  *client.Client // directly to the coordinator
	cluster            string
	errorLog           string // its path

	history        *history
	begun          time.Time
	events         rig.EventLog
	heuristicCases heuristicCases
	lockDelays     lockDelays
	foreign        []string
	typed          map[string]int    // effects of typed statements, by place and statement
	unknown        map[txn.ID]*entry // transfers that are in the databases and that the coordinator does not know
}

func newTestEnv(t *testing.T, seed uint64) *testEnv {
	return &testEnv{
		t: t, seed: seed, dir: t.TempDir(), proxies: map[string]*faultproxy.Proxy{}, history: newHistory(), unknown: map[txn.ID]*entry{}, begun: time.Now(),
		vaultPostgres: newRand(seed, 'v').IntN(2) == 0,
	}
}

// open starts everything but the clients.
func (b *testEnv) open() {
	t := b.t
	var starting sync.WaitGroup
	var errs [3]error
	starting.Go(func() { errs[0] = b.build() })
	starting.Go(func() { b.postgres, errs[1] = startServers(t.Context()) })
	starting.Go(func() {
		b.mariadb, errs[2] = testdb.StartMariaDB(t.Context(), testdb.MariaDBConfig{
			Settings: map[string]string{"log-error": errorLog},
		})
	})
	starting.Wait()
	if b.postgres != nil {
		t.Cleanup(func() { b.must(b.postgres.close()) })
	}
	if b.mariadb != nil {
		t.Cleanup(func() { b.must(b.mariadb.Close()) })
	}
	b.must(errors.Join(errs[:]...))
	b.createDatabases()
	b.assignAddresses()
	b.startCoordinator()
	b.startVault()
	b.register()
	b.awaitMarkerTables()
	b.newClients()
}

func (b *testEnv) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// errorLog is the name of MariaDB's log, in its own directory.
const errorLog = "error.log"

// register registers the participants with the coordinator, which reaches them by proxies.
func (b *testEnv) register() {
	throughBank, err := url.Parse(b.postgres.DSN(inBank))
	b.must(err)
	throughBank.Host = b.proxies[inBank].Address()
	throughSavings, err := mysql.ParseDSN(b.mariadb.DSN(inSavings))
	b.must(err)
	throughSavings.Addr = b.proxies[inSavings].Address()
	b.barrierDeleter = newBarrierDeleter(b)
	for _, p := range []admin.Participant{
		{Name: inBank, Kind: "postgres", Settings: map[string]string{"dsn": throughBank.String(), "quota": "150"}},
		{Name: inSavings, Kind: "mariadb", Settings: map[string]string{"dsn": throughSavings.FormatDSN()}},
		{Name: inVault, Kind: "web", CoordinatorPrepares: true, Settings: map[string]string{
			"url": "http://" + b.proxies[inVault].Address() + "/txmgr", "list": "/prepared", "timeout": "5s",
		}},
		{Name: "clerk", Kind: "web", CoordinatorPrepares: true, Settings: map[string]string{"url": b.barrierDeleter.url()}},
	} {
		b.must(b.m.Admin().AddParticipant(b.t.Context(), p, "", ""))
	}
	status, err := b.m.Admin().Status(b.t.Context())
	b.must(err)
	b.cluster = status.Cluster
}

// awaitMarkerTables waits until the coordinator has created the tables in which branches prove their
// ends. A client that does not find PostgreSQL's does not look again for five seconds.
func (b *testEnv) awaitMarkerTables() {
	ctx, cancel := context.WithTimeout(b.t.Context(), rig.WaitTimeout)
	defer cancel()
	b.must(rig.Retry(ctx, func() error {
		_, errBank := b.number(b.bank, "SELECT count(*) FROM txmgr_branch")
		_, errSavings := b.number(b.savings, "SELECT count(*) FROM txmgr_branch")
		return errors.Join(errBank, errSavings)
	}))
}
