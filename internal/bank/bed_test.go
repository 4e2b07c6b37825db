package bank

import (
	"database/sql"
	"errors"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/internal/relay"
	"github.com/txmgr/txmgr/internal/rig"
	"github.com/txmgr/txmgr/internal/testdb"
	"github.com/txmgr/txmgr/txn"
)

const (
	tellers = 4
	workers = 8 // of a teller
)

// bed is everything that runs.
type bed struct {
	t    *testing.T
	seed uint64
	dir  string

	postgres *servers
	mariadb  *testdb.MariaDB
	// To look, and to do things by hand. They do not go through relays.
	bank, savings, vaultDB *sql.DB
	vaultPostgres          bool // where the vault keeps its things

	coordinator, vault *rig.Process
	tellers            []*rig.Process
	relays             map[string]*relay.Relay // by participant, and "desk" before the coordinator
	clerk              *clerk
	desk               string         // the coordinator's own address
	service            string         // the vault's
	counters           []string       // the tellers', for each other
	m                  *client.Client // straight to the coordinator
	cluster            string
	errorLog           string // where it is

	ledger  *ledger
	begun   time.Time
	log     rig.Chronicle
	plants  plants
	squats  squats
	foreign []string
	typed   map[string]int // effects of typed statements, by place and statement
}

func newBed(t *testing.T, seed uint64) *bed {
	return &bed{
		t: t, seed: seed, dir: t.TempDir(), relays: map[string]*relay.Relay{}, ledger: newLedger(), begun: time.Now(),
		vaultPostgres: chance(seed, 'v').IntN(2) == 0,
	}
}

// open starts everything but the tellers.
func (b *bed) open() {
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
	b.place()
	b.startCoordinator()
	b.startVault()
	b.register()
	b.placeTellers()
}

func (b *bed) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// errorLog is what MariaDB calls its log, in its own directory.
const errorLog = "error.log"

// register tells the coordinator of the participants, which it reaches by relays.
func (b *bed) register() {
	throughBank, err := url.Parse(b.postgres.DSN(inBank))
	b.must(err)
	throughBank.Host = b.relays[inBank].Address()
	throughSavings, err := mysql.ParseDSN(b.mariadb.DSN(inSavings))
	b.must(err)
	throughSavings.Addr = b.relays[inSavings].Address()
	b.clerk = newClerk(b)
	for _, p := range []txn.Participant{
		{Name: inBank, Kind: "postgres", Settings: map[string]string{"dsn": throughBank.String(), "quota": "150"}},
		{Name: inSavings, Kind: "mariadb", Settings: map[string]string{"dsn": throughSavings.FormatDSN()}},
		{Name: inVault, Kind: "web", CoordinatorPrepares: true, Settings: map[string]string{
			"url": "http://" + b.relays[inVault].Address() + "/txmgr", "list": "/prepared", "timeout": "5s",
		}},
		{Name: "clerk", Kind: "web", CoordinatorPrepares: true, Settings: map[string]string{"url": b.clerk.url()}},
	} {
		b.must(b.m.AddParticipant(b.t.Context(), p, "", ""))
	}
	status, err := b.m.Status(b.t.Context())
	b.must(err)
	b.cluster = status.Cluster
}
