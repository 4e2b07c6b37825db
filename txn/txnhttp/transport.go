package txnhttp

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/txmgr/txmgr/txn"
)

// Transport tells services of yours the transaction that they are called in: that of
// the request's context ([txn.FromContext]). Requests outside a transaction go
// through it untouched. Safe for concurrent use; it must not be changed while it is.
//
// A request in a transaction to any other host fails: were it sent without the id,
// the work there would be done outside the transaction, and nobody would notice. Use
// another client for services that have nothing to do with your transactions.
type Transport struct {
	// Hosts are the services that may know the transaction, as they stand in the
	// URL: "stock.internal", or "stock.internal:8080" with a port that is not the
	// scheme's. None are known by default.
	Hosts []string
	// Base sends the requests. Defaults to http.DefaultTransport.
	Base http.RoundTripper
}

// RoundTrip implements [http.RoundTripper]. A request that names a transaction
// already keeps the name. The error for a host that is not known is [txn.ErrDenied].
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	tx, in := txn.FromContext(r.Context())
	named := r.Header.Get(txn.HeaderID)
	if !in && named == "" {
		return base.RoundTrip(r)
	}
	if !t.allows(r) {
		if r.Body != nil {
			_ = r.Body.Close() // as RoundTrip promises
		}
		var id txn.ID
		if in {
			id = tx.ID()
		}
		return nil, &txn.Error{Op: "call " + r.URL.Host, ID: id, Err: txn.ErrDenied, Detail: fmt.Sprintf("the host is none of those that may know a transaction, %q: name it in Transport.Hosts, or call it with another client", t.Hosts)}
	}
	if in && (named == "" || named == tx.ID().String()) {
		r = r.Clone(r.Context())
		txn.Inject(r.Header, tx)
	}
	return base.RoundTrip(r)
}

func (t *Transport) allows(r *http.Request) bool {
	return slices.ContainsFunc(t.Hosts, func(host string) bool { return strings.EqualFold(host, r.URL.Host) })
}
