package txnhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/txnhttp"
	"github.com/txmgr/txmgr/txn/txntest"
)

// sent is a base that records what would be sent.
type sent struct{ requests []*http.Request }

func (s *sent) RoundTrip(r *http.Request) (*http.Response, error) {
	s.requests = append(s.requests, r)
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
}

// body records that it was closed.
type body struct {
	io.Reader
	closed bool
}

func (b *body) Close() error {
	b.closed = true
	return nil
}

func TestWhichURLsAreSentTheTransaction(t *testing.T) {
	const (
		id    = "" // of the context's transaction
		other = "tx_01k9x3v7h2m8qf4r6t0bz5n1de"
	)
	hosts := []string{"stock.internal:8080", "Mail.internal"}
	for name, c := range map[string]struct {
		outside bool   // of a transaction
		url     string // requested
		named   []string
		want    []string // header that is sent
		denied  bool
	}{
		"a known host":                          {url: "http://stock.internal:8080/items", want: []string{id}},
		"in another case":                       {url: "https://MAIL.internal/", want: []string{id}},
		"another port":                          {url: "http://stock.internal/items", denied: true},
		"a host that only ends so":              {url: "http://evil-mail.internal/", denied: true},
		"a name before an @":                    {url: "http://mail.internal@evil.example/", denied: true},
		"an unknown host":                       {url: "http://pay.example/", denied: true},
		"outside of a transaction":              {outside: true, url: "http://pay.example/"},
		"named already, by the same name":       {url: "http://mail.internal/", named: []string{id}, want: []string{id}},
		"named already, by another":             {url: "http://mail.internal/", named: []string{other}, want: []string{other}},
		"passed on to a host that is unknown":   {outside: true, url: "http://pay.example/", named: []string{other}, denied: true},
		"passed on to one that is known":        {outside: true, url: "http://mail.internal/", named: []string{other}, want: []string{other}},
		"passed on twice, as it was said twice": {url: "http://mail.internal/", named: []string{other, other}, want: []string{other, other}},
	} {
		t.Run(name, func(t *testing.T) {
			m, base, content := txntest.New(t), &sent{}, &body{Reader: strings.NewReader("x")}
			transport := &txnhttp.Transport{Hosts: hosts, Base: base}
			call := func(ctx context.Context, self string) {
				names := func(all []string) (out []string) {
					for _, n := range all {
						if n == id {
							n = self
						}
						out = append(out, n)
					}
					return out
				}
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, content)
				is(t, err)
				if c.named != nil {
					r.Header[txn.HeaderID] = names(c.named)
				}
				before := strings.Join(r.Header.Values(txn.HeaderID), " ")
				res, err := transport.RoundTrip(r)
				if c.denied {
					is(t, err, txn.ErrDenied)
					if len(base.requests) != 0 || !content.closed {
						t.Errorf("%d requests were sent; body closed: %v", len(base.requests), content.closed)
					}
					return
				}
				is(t, err)
				is(t, res.Body.Close())
				if got, want := strings.Join(base.requests[0].Header.Values(txn.HeaderID), " "), strings.Join(names(c.want), " "); got != want {
					t.Errorf("sent %q, want %q", got, want)
				}
				if after := strings.Join(r.Header.Values(txn.HeaderID), " "); after != before {
					t.Errorf("the caller's request was changed: %q", after)
				}
			}
			if c.outside {
				call(t.Context(), "")
				return
			}
			is(t, txn.Run(t.Context(), m, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
				call(ctx, tx.ID().String())
				return nil
			}))
		})
	}
}

// TestRedirectsDoNotSendTheTransaction: each hop is checked.
func TestRedirectsDoNotSendTheTransaction(t *testing.T) {
	evil := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("it was told %q", r.Header.Get(txn.HeaderID)) }))
	defer evil.Close()
	good := httptest.NewServer(http.RedirectHandler(evil.URL, http.StatusTemporaryRedirect))
	defer good.Close()
	u, err := url.Parse(good.URL)
	is(t, err)
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	client := &http.Client{Transport: &txnhttp.Transport{Hosts: []string{u.Host}, Base: base}}
	m := txntest.New(t)
	is(t, txn.Run(t.Context(), m, txn.Options{}, func(ctx context.Context, _ *txn.Tx) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, good.URL, nil)
		is(t, err)
		res, err := client.Do(r)
		if err == nil {
			err = errors.Join(errors.New("no error"), res.Body.Close())
		}
		is(t, err, txn.ErrDenied)
		return nil
	}))
}

// TestACalledServiceForbidsOnePhase: it may have a branch that this one does not
// know.
func TestACalledServiceForbidsOnePhase(t *testing.T) {
	p := services(t, txnhttp.Options{}, func(*pair) http.HandlerFunc { return func(http.ResponseWriter, *http.Request) {} })
	_, err := p.order(t.Context(), 0)
	is(t, err)
	if got := strings.Join(p.bank.Calls(p.Transactions()[0].ID), ", "); got != "exec, prepare, commit" {
		t.Error(got)
	}
}
