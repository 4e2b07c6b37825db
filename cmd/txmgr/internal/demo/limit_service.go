package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/txmgr/txmgr/participant/ledger"
	"github.com/txmgr/txmgr/participant/web"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// dailyLimit is the amount that may leave an account during the demo.
const dailyLimit = 90

const serviceName = "limits"

// limitService is a web service that has to agree to every transfer. Each account has a limit:
// prepare reserves a part of it, commit uses the reservation, and rollback releases it. The service
// keeps the amounts in a ledger of its own, as account/left, account/held and account/used.
type limitService struct {
	server  *http.Server
	url     string
	store   *ledger.Ledger
	handler *web.Service
}

// request is the payload of a branch at the service.
type request struct {
	Account string `json:"account"`
	Amount  int64  `json:"amount"`
}

// startLimitService serves on a free port of loopback.
func startLimitService(ctx context.Context, dir string) (*limitService, error) {
	l := &limitService{store: ledger.New(serviceName, filepath.Join(dir, serviceName+".db")), handler: web.New(serviceName)}
	var grants strings.Builder
	for i := range accounts {
		fmt.Fprintf(&grants, "set %s/left %d\n", accountName(i), dailyLimit)
	}
	if _, err := l.store.Local(ctx, grants.String()); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/txmgr/", web.Handler(l.store.Barrier(), l.callbacks(), web.Options{}))
	l.url = "http://" + listener.Addr().String() + "/txmgr"
	l.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = l.server.Serve(listener) }() // until close
	return l, nil
}

func (l *limitService) callbacks() web.Callbacks[*ledger.Work] {
	move := func(from, to string) func(context.Context, *ledger.Work, web.Branch) error {
		return func(ctx context.Context, w *ledger.Work, b web.Branch) error {
			r, err := parseRequest(b.Payload)
			if err != nil {
				return err
			}
			return w.Move(ctx, r.Account+from, r.Account+to, r.Amount)
		}
	}
	return web.Callbacks[*ledger.Work]{Prepare: l.grant, Commit: move("/held", "/used"), Rollback: move("/held", "/left")}
}

// grant votes no when the limit is used up.
func (l *limitService) grant(ctx context.Context, w *ledger.Work, b web.Branch) error {
	r, err := parseRequest(b.Payload)
	if err != nil {
		return web.No(err.Error())
	}
	left, err := w.Get(ctx, r.Account+"/left")
	if err != nil {
		return err
	}
	if left < r.Amount {
		return web.No(fmt.Sprintf("the remaining limit of %[2]s is %[1]d, less than %[3]d", left, r.Account, r.Amount))
	}
	return w.Move(ctx, r.Account+"/left", r.Account+"/held", r.Amount)
}

func parseRequest(payload []byte) (r request, err error) {
	if err := json.Unmarshal(payload, &r); err != nil {
		return r, fmt.Errorf("read the request: %w", err)
	}
	if r.Account == "" || r.Amount <= 0 {
		return r, errors.New("a request needs an account and an amount")
	}
	return r, nil
}

// enlist enlists the service for a transfer.
func (l *limitService) enlist(ctx context.Context, tx *txn.Tx, account string, amount int64) error {
	return l.handler.EnlistJSON(ctx, tx, request{account, amount})
}

func (l *limitService) registration() admin.Participant {
	return admin.Participant{Name: serviceName, Kind: web.Kind, Settings: map[string]string{"url": l.url, "list": "/prepared"}}
}

func (l *limitService) describe() string { return "web service at " + l.url }

// used returns how much has left each account, and how much is reserved in all.
func (l *limitService) used(ctx context.Context) (used map[string]int64, held int64, err error) {
	all, err := l.store.Balances(ctx)
	if err != nil {
		return nil, 0, err
	}
	used = map[string]int64{}
	for name, n := range all {
		account, part, _ := strings.Cut(name, "/")
		switch {
		case part == "used" && n != 0:
			used[account] = n
		case part == "held":
			held += n
		}
	}
	return used, held, nil
}

func (l *limitService) close() error { return l.server.Close() }
