package adaptivebench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/txmgr/txmgr/adaptive"
)

// appServer is an HTTP server that runs every request on a pool.
type appServer struct {
	address string
	http    *http.Server
	ended   chan error
}

// startServer serves an application on a free port of the loopback address. It passes
// to took how long each request was at the pool, from many goroutines.
func startServer(s service, pool *adaptive.Pool, took func(time.Duration)) (*appServer, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open the server: %w", err)
	}
	out := &appServer{
		address: listener.Addr().String(),
		http:    &http.Server{Handler: handler(s, pool, took), ErrorLog: log.New(io.Discard, "", 0)},
		ended:   make(chan error, 1),
	}
	go func() { out.ended <- out.http.Serve(listener) }()
	return out, nil
}

// handler computes the answer on a worker of the pool, as the dissertation's server does; reading
// and writing are left to the server's own goroutines, as there to Netty's.
func handler(s service, pool *adaptive.Pool, took func(time.Duration)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		var answer string
		err := pool.Do(r.Context(), func() (err error) {
			answer, err = s.answer(r.Context())
			return err
		})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		took(time.Since(began))
		_, _ = io.WriteString(w, answer) // a user that has left needs none
	})
}

// close ends the server; requests that are under way are awaited until ctx ends.
func (s *appServer) close(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("end the server: %w", err), s.http.Close())
	}
	if ended := <-s.ended; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}
