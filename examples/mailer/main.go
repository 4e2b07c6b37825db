// Command mailer is a small web service that takes part in global transactions: a mail is sent if,
// and only if, the transaction commits.
//
//	go run ./examples/mailer -listen 127.0.0.1:8025
//	txmgr participant add mail --kind web \
//	    --set url=http://127.0.0.1:8025/txmgr --set list=/prepared
//
// An application enlists it with the mail:
//
//	mail := web.New("mail")
//	err := mail.EnlistJSON(ctx, tx, map[string]string{"to": "alice@example.org", "subject": "Hello", "body": "…"})
//
// The number of mails is limited: prepare reserves one, commit uses the reservation, rollback
// releases it. The counters and the barrier are kept in a ledger file, or with -dsn in PostgreSQL.
// "Sent" means: written to the directory of -outbox, from which a mail program would send it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// config is the command line.
type config struct {
	listen, data, dsn, outbox, secretFile string
	quota                                 int64
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var c config
	flag.StringVar(&c.listen, "listen", "127.0.0.1:8025", "address to listen on")
	flag.StringVar(&c.data, "data", filepath.Join(os.TempDir(), "txmgr-mailer"), "folder of the ledger and the outbox")
	flag.StringVar(&c.dsn, "dsn", "", "connection string of a PostgreSQL database to be used instead of the ledger")
	flag.StringVar(&c.outbox, "outbox", "", "folder for mails that are to leave (default: outbox in -data)")
	flag.StringVar(&c.secretFile, "secret-file", "", "file with the secret with which the coordinator signs requests")
	flag.Int64Var(&c.quota, "quota", 1000, "how many mails may leave; counts at the first start")
	flag.Parse()
	if err := run(ctx, c); err != nil {
		fmt.Fprintln(os.Stderr, "mailer:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, c config) (err error) {
	if c.outbox == "" {
		c.outbox = filepath.Join(c.data, "outbox")
	}
	if err := os.MkdirAll(c.outbox, 0o700); err != nil {
		return err
	}
	handler, done, err := open(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	l, err := net.Listen("tcp", c.listen)
	if err != nil {
		return err
	}
	fmt.Printf("mailer: listening on http://%s/txmgr\n", l.Addr())
	return serve(ctx, l, handler)
}

// serve serves until ctx ends, and then completes the requests in progress.
func serve(ctx context.Context, l net.Listener, handler http.Handler) error {
	s := &http.Server{
		Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err := s.Shutdown(ctx)
	if served := <-served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
