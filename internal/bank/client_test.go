package bank

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/internal/rig"
	"github.com/txmgr/txmgr/participant/mariadb"
	"github.com/txmgr/txmgr/participant/postgres"
	"github.com/txmgr/txmgr/participant/web"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/txnhttp"
)

// clientConfig configures a transfer client.
type clientConfig struct {
	Coordinator string // the coordinator's URL
	Bank        string // the databases' connection strings
	Savings     string
	Address     string   // where it takes the calls of other clients
	Peers       []string // their addresses
	Seed        uint64
	Life        uint64 // how often it has been started before
	Workers     int
	// Timeout is how long a call of the coordinator may take, all attempts together; zero is the
	// default. A short one causes many transactions in doubt.
	Timeout time.Duration
}

// transferClient is one process that transfers money.
type transferClient struct {
	clientConfig
	m             *client.Client
	bank, readsPG *postgres.DB
	savings       *mariadb.DB
	readsMaria    *mariadb.DB
	vault         *web.Service
	peers         *http.Client

	out sync.Mutex // held while a line is written
}

// runTransferClient is the program of a transfer client. SIGTERM ends it in an orderly way.
func runTransferClient(config string) error {
	t := &transferClient{vault: web.New(inVault)}
	if err := json.Unmarshal([]byte(config), &t.clientConfig); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	closeAll, err := t.connect()
	if err != nil {
		return err
	}
	defer closeAll()
	listener, err := net.Listen("tcp", t.Address)
	if err != nil {
		return err
	}
	others := txnhttp.New(t.m, txnhttp.TrustAll, txnhttp.Options{Logger: slog.New(slog.DiscardHandler)})
	server := &http.Server{Handler: others.Handler(http.HandlerFunc(t.servePeer)), ErrorLog: log.New(io.Discard, "", 0)}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()

	var workers sync.WaitGroup
	for n := range t.Workers {
		workers.Go(func() { t.work(ctx, uint64(n)) })
	}
	workers.Wait()
	ending, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	err = errors.Join(server.Shutdown(ending), others.Close(ending))
	if serveErr := <-served; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	return err
}

// connect opens the connections of the client.
func (t *transferClient) connect() (closeAll func(), err error) {
	if t.m, err = client.Open(client.Config{Address: t.Coordinator, RequestTimeout: t.Timeout}); err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(t.Bank)
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(2*t.Workers + 2) // its own, those of other clients, and two spare ones
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, err
	}
	db, err := openMariaDB(t.Savings)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(2*t.Workers + 2)
	db.SetMaxIdleConns(t.Workers)
	t.bank, t.readsPG = postgres.New(inBank, pool), postgres.New(inBank, pool)
	t.readsPG.TxOptions.AccessMode = pgx.ReadOnly
	t.savings, t.readsMaria = mariadb.New(inSavings, db), mariadb.New(inSavings, db)
	t.readsMaria.TxOptions.ReadOnly = true
	base := &http.Transport{}
	t.peers = &http.Client{Transport: &txnhttp.Transport{Hosts: t.Peers, Base: base}}
	return func() {
		base.CloseIdleConnections()
		pool.Close()
		_ = db.Close() // the coordinator ends what is open there
		_ = t.m.Close()
	}, nil
}

// openMariaDB opens a pool that does not log: lost connections are expected.
func openMariaDB(dsn string) (*sql.DB, error) {
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	config.Logger = log.New(io.Discard, "", 0)
	if config.Params == nil {
		config.Params = map[string]string{}
	}
	config.Params["innodb_lock_wait_timeout"] = "3"
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

// work makes one transfer after the other until it is stopped.
func (t *transferClient) work(ctx context.Context, n uint64) {
	r := newRand(t.Seed, t.Life, n)
	for ctx.Err() == nil {
		tr := draw(r, rig.NewID())
		t.report(report{Begin: &tr})
		end := t.attempt(&tr, r.Uint64())
		t.report(report{End: &end})
		rest := 5 * time.Millisecond
		if end.Outcome != outcomeOK {
			rest = between(r, 10*time.Millisecond, 100*time.Millisecond) // something may be down
		}
		rig.Sleep(ctx, rest)
	}
}

// report writes a line. It is written before the next step: a kill does not revoke it.
func (t *transferClient) report(r report) {
	line, err := json.Marshal(r)
	if err != nil {
		panic(err) // it is made of texts and numbers
	}
	t.out.Lock()
	defer t.out.Unlock()
	if _, err := os.Stdout.Write(append(line, '\n')); err != nil {
		panic(err)
	}
}

// attempt makes a transfer, and returns its end.
func (t *transferClient) attempt(tr *transfer, seed uint64) (end transferEnd) {
	p := &planned{id: tr.ID}
	end.ID = tr.ID
	defer func() {
		if x := recover(); x == errPanic {
			end.Outcome = outcomePanicked
		} else if x != nil {
			panic(x)
		}
	}()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if tr.Kind == kindCancelled {
		defer time.AfterFunc(time.Duration(seed%uint64(60*time.Millisecond)), cancel).Stop()
	}
	o := tr.wayOf().options
	o.Name, o.Timeout = tr.Kind, tr.Timeout
	err := txn.Run(context.WithValue(ctx, plannedKey{}, p), namer{t.m}, o, func(ctx context.Context, tx *txn.Tx) error {
		err := t.transfer(ctx, tx, tr, seed)
		end.Failed = err != nil
		return err
	})
	end.Outcome = outcomeOther
	inDoubt := errors.Is(err, txn.ErrInDoubt) || errors.Is(err, txn.ErrHeuristic) && tr.Kind == kindTyped
	switch rolledBack, byHand := errors.Is(err, txn.ErrRolledBack), errors.Is(err, txn.ErrEndedByApplication); {
	case err == nil:
		end.Outcome, end.Decider = outcomeOK, p.decider()
		return end
	case rolledBack && (inDoubt || byHand), byHand && tr.Kind != kindTyped:
	case byHand:
		end.Outcome = outcomeEndedByApp
	case rolledBack:
		end.Outcome = outcomeRolledBack
	case inDoubt:
		end.Outcome = outcomeInDoubt
	case errors.Is(err, txn.ErrUnavailable):
		end.Outcome = outcomeUnavailable
	}
	detail := err.Error()
	end.Detail = detail[:min(len(detail), 500)] // a line is written with one write
	return end
}

// namer is the client, with the id of a transfer, which was reported before, in place of a new one:
// the transaction is named without a call, and its begin sent behind the work. It notes which call
// asks for the decision.
type namer struct{ *client.Client }

// planned is what the context of a transfer carries.
type planned struct {
	id                txn.ID
	asked, delegating atomic.Bool // the coordinator was asked to decide, or to delegate the decision
}

// plannedKey is its key.
type plannedKey struct{}

func plannedOf(ctx context.Context) *planned { return ctx.Value(plannedKey{}).(*planned) }

// decider is who decided, if it was decided to commit.
func (p *planned) decider() decider {
	switch {
	case p.asked.Load():
		return byLog
	case p.delegating.Load():
		return byDelegate
	}
	return byBranch
}

// NameTransaction implements [txn.Namer].
func (n namer) NameTransaction(ctx context.Context, o txn.Options) (named txn.Naming, ok bool) {
	named, ok = n.Client.NameTransaction(ctx, o)
	named.Options.ID = plannedOf(ctx).id
	return named, ok
}

// Begin implements [txn.Manager].
func (n namer) Begin(ctx context.Context, o txn.Options) (txn.BeginResult, error) {
	o.ID = plannedOf(ctx).id
	return n.Client.Begin(ctx, o)
}

// Commit implements [txn.Manager].
func (n namer) Commit(ctx context.Context, id txn.ID, c txn.CommitRequest) (txn.Outcome, error) {
	plannedOf(ctx).asked.Store(true)
	return n.Client.Commit(ctx, id, c)
}

// Delegate implements [txn.Manager].
func (n namer) Delegate(ctx context.Context, id txn.ID, b txn.BranchID) (txn.Outcome, error) {
	plannedOf(ctx).delegating.Store(true)
	return n.Client.Delegate(ctx, id, b)
}

// errPanic is the value with which transfers panic.
var errPanic = errors.New("as planned")

// transfer is the body of the transaction.
func (t *transferClient) transfer(ctx context.Context, tx *txn.Tx, tr *transfer, seed uint64) error {
	for _, place := range tr.takesPart() {
		var err error
		if place == tr.Remote {
			err = t.callPeer(ctx, tr, seed)
		} else {
			err = t.do(ctx, tx, tr, place, seed)
		}
		if err == nil && place == tr.TypedAt {
			err = t.typed(ctx, tx, tr, seed)
		}
		if err != nil {
			return err
		}
	}
	switch tr.Kind {
	case kindPanic:
		panic(errPanic)
	case kindAbandon:
		rig.Sleep(context.Background(), tr.Timeout+time.Second) // ignores the end of ctx
	}
	return nil
}

// do makes the changes in one place.
func (t *transferClient) do(ctx context.Context, tx *txn.Tx, tr *transfer, place string, seed uint64) error {
	legs := tr.at(place)
	switch {
	case place == inVault:
		return t.vault.EnlistJSON(ctx, tx, vaultPayload{Legs: legs})
	case len(legs) == 0:
		return t.read(ctx, tx, place)
	case place == inBank:
		for _, l := range legs {
			err := t.inBank(ctx, tx, l)
			var refused *pgconn.PgError
			if errors.As(err, &refused) && refused.Code == pgCheckViolation && seed%2 == 0 {
				return nil // ignores the error: PREPARE TRANSACTION will be answered by ROLLBACK
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	for _, l := range legs {
		_, err := t.savings.Exec(ctx, tx, "UPDATE account SET balance = balance + ? WHERE id = ?", l.Delta, l.Account)
		if err == nil {
			_, err = t.savings.Exec(ctx, tx, "INSERT INTO journal (tx, account, delta) VALUES (?, ?, ?)", tx.String(), l.Account, l.Delta)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

const pgCheckViolation = "23514"

func (t *transferClient) inBank(ctx context.Context, tx *txn.Tx, l leg) error {
	_, err := t.bank.Exec(ctx, tx, "UPDATE account SET balance = balance + $1 WHERE id = $2", l.Delta, l.Account)
	if err == nil {
		_, err = t.bank.Exec(ctx, tx, "INSERT INTO journal (tx, account, delta) VALUES ($1, $2, $3)", tx.String(), l.Account, l.Delta)
	}
	return err
}

func (t *transferClient) read(ctx context.Context, tx *txn.Tx, place string) (err error) {
	var sum int64
	if place == inBank {
		return t.readsPG.QueryRow(ctx, tx, "SELECT sum(balance) FROM account").Scan(&sum)
	}
	return t.readsMaria.QueryRow(ctx, tx, "SELECT sum(balance) FROM account").Scan(&sum)
}

// callPeer makes another client do the remote part, in the same transaction.
func (t *transferClient) callPeer(ctx context.Context, tr *transfer, seed uint64) error {
	body, err := json.Marshal(tr)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+t.Peers[seed%uint64(len(t.Peers))], bytes.NewReader(body))
	if err != nil {
		return err
	}
	answer, err := t.peers.Do(request)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<16))
	err = errors.Join(err, answer.Body.Close())
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("the other teller answered %s: %s", answer.Status, text)
	}
	return err
}

// servePeer does the part that another client asks for.
func (t *transferClient) servePeer(w http.ResponseWriter, r *http.Request) {
	tx, in := txn.FromContext(r.Context())
	var tr transfer
	err := json.NewDecoder(r.Body).Decode(&tr)
	switch {
	case err != nil:
	case !in:
		err = errors.New("outside of a transaction")
	default:
		err = t.do(r.Context(), tx, &tr, tr.Remote, 1)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}
