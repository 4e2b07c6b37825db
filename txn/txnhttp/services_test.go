package txnhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/txnhttp"
	"github.com/txmgr/txmgr/txn/txntest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair are two services: orders begins transactions and works at the bank, stock is
// called by it and works at the stock.
type pair struct {
	*txntest.Manager
	bank, stock *txntest.Database
	mw          *txnhttp.Middleware
	client      *http.Client // of orders
	url         string       // of the service stock
	paid, sold  int
}

// services starts the two; handler is what stock does.
func services(t *testing.T, o txnhttp.Options, handler func(p *pair) http.HandlerFunc) *pair {
	t.Helper()
	m := txntest.New(t)
	o.Logger = slog.New(slog.DiscardHandler)
	p := &pair{Manager: m, bank: m.Database("bank"), stock: m.Database("stock"), mw: txnhttp.New(m, txnhttp.TrustAll, o)}
	server := httptest.NewUnstartedServer(p.mw.Handler(handler(p)))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of panics
	server.Start()
	p.url = server.URL
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	base := &http.Transport{}
	p.client = &http.Client{Transport: &txnhttp.Transport{Hosts: []string{u.Host}, Base: base}}
	t.Cleanup(func() {
		server.Close()
		base.CloseIdleConnections()
		if err := p.mw.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return p
}

// sell is a handler's work in the transaction of its context.
func (p *pair) sell(ctx context.Context) error {
	tx, ok := txn.FromContext(ctx)
	if !ok {
		return errors.New("the handler is in no transaction")
	}
	return p.stock.Exec(ctx, tx, func() { p.sold++ })
}

// well is a handler that does its work.
func well(p *pair) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		if err := p.sell(r.Context()); err != nil {
			http.Error(rw, err.Error(), http.StatusInternalServerError)
			return
		}
		rw.Header().Set("Left", "6")
		rw.Header().Set(txnhttp.HeaderOutcome, "committed") // not its to say
		rw.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(rw, "sold")
	}
}

// answer is the result of a request.
type answer struct {
	status  int
	outcome string
	body    string
	header  http.Header
}

func (p *pair) call(ctx context.Context, change ...func(*http.Request)) (answer, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, strings.NewReader("one"))
	if err != nil {
		return answer{}, err
	}
	for _, c := range change {
		c(r)
	}
	res, err := p.client.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header.Get(txnhttp.HeaderOutcome), string(body), res.Header}, err
}

// order is what orders does: it fails when stock does.
func (p *pair) order(ctx context.Context, timeout time.Duration) (a answer, err error) {
	err = txn.Run(ctx, p.Manager, txn.Options{Timeout: timeout}, func(ctx context.Context, tx *txn.Tx) error {
		if err := p.bank.Exec(ctx, tx, func() { p.paid++ }); err != nil {
			return err
		}
		if a, err = p.call(ctx); err != nil {
			return err
		}
		if a.status >= 400 {
			return fmt.Errorf("stock answered %d", a.status)
		}
		return nil
	})
	return a, err
}

// ends checks how the last transaction ended at both, and that the effects took place once or
// never.
func (p *pair) ends(t *testing.T, want txn.State) {
	t.Helper()
	all := p.Transactions()
	id := all[len(all)-1].ID
	if out := p.Outcome(id); out.State != want || out.Heuristic != 0 {
		t.Errorf("%v with heuristic %v, want %v", out.State, out.Heuristic, want)
	}
	branch, times := txn.BranchRolledBack, 0
	if want.Commits() {
		branch, times = txn.BranchCommitted, 1
	}
	for name, r := range map[string]*txntest.Database{"bank": p.bank, "stock": p.stock} {
		if got := r.State(id); got != 0 && got != branch {
			t.Errorf("%s is %v", name, got)
		}
	}
	if p.paid != times || p.sold != times {
		t.Errorf("paid %d times and sold %d times, want %d", p.paid, p.sold, times)
	}
}

func is(t *testing.T, err error, want ...error) {
	t.Helper()
	if len(want) == 0 && err != nil {
		t.Error(err)
	}
	for _, w := range want {
		if !errors.Is(err, w) {
			t.Errorf("error %v is not %q", err, w)
		}
	}
}

// says checks an answer of the middleware's own.
func (a answer) says(t *testing.T, status int, outcome string, code txn.Code, words ...string) {
	t.Helper()
	if a.status != status || a.outcome != outcome {
		t.Errorf("%d with outcome %q, want %d with %q: %s", a.status, a.outcome, status, outcome, a.body)
	}
	for _, w := range append(words, `"code":"`+string(code)+`"`) {
		if !strings.Contains(a.body, w) {
			t.Errorf("%s does not say %q", a.body, w)
		}
	}
}
