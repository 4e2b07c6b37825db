package client_test

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/txn"
)

// The token must not be sent to the target of a redirect.
func TestNoRedirectIsFollowed(t *testing.T) {
	eachTransport(t, func(t *testing.T, cfg client.Config) {
		var shown atomic.Int32
		plain := new(http.Protocols)
		plain.SetHTTP1(true)
		plain.SetUnencryptedHTTP2(true)
		start := func(h http.HandlerFunc) *httptest.Server {
			s := httptest.NewUnstartedServer(h)
			s.Config.Protocols = plain
			s.Start()
			t.Cleanup(s.Close)
			return s
		}
		elsewhere := start(func(http.ResponseWriter, *http.Request) { shown.Add(1) })
		asked := make(chan struct{}, 100)
		first := start(func(w http.ResponseWriter, r *http.Request) {
			asked <- struct{}{}
			http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
		})
		cfg.Address, cfg.Token = first.URL, "txm_secret"
		if _, err := open(t, cfg).Begin(soon(t, 500*time.Millisecond), txn.Options{}); err == nil {
			t.Error("no error")
		}
		if len(asked) == 0 || shown.Load() != 0 {
			t.Errorf("%d redirects, %d followed", len(asked), shown.Load())
		}
	})
}
