package txnhttp

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/txmgr/txmgr/txn"
)

// Transport adds to requests the id of the transaction in which they are made: that of the
// request's context ([txn.FromContext]). Requests outside a transaction are not changed. Safe
// for concurrent use; it must not be changed while in use.
//
// A request in a transaction to any other host than those listed fails: if it were sent without
// the id, the work there would be done outside the transaction, unnoticed. Use another client
// for services that have nothing to do with your transactions.
type Transport struct {
	// Hosts are the services that may receive the transaction, as they stand in the URL:
	// "stock.internal", or "stock.internal:8080" with a port that is not the scheme's. None by
	// default.
	Hosts []string
	// Base sends the requests. Defaults to http.DefaultTransport.
	Base http.RoundTripper
}

// RoundTrip implements [http.RoundTripper]. A request that already names a transaction keeps
// that name. The error for a host that is not listed is [txn.ErrDenied]. The request is sent when
// the coordinator has begun the transaction; the error is that of the begin when it was refused.
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
		closeBody(r)
		var id txn.ID
		if in {
			id, _ = txn.ParseID(tx.String())
		}
		return nil, &txn.Error{Op: "call " + r.URL.Host, ID: id, Err: txn.ErrDenied, Detail: fmt.Sprintf("the host is none of those that may know a transaction, %q: name it in Transport.Hosts, or call it with another client", t.Hosts)}
	}
	if in && (named == "" || named == tx.String()) {
		if err := tx.AwaitBegin(r.Context()); err != nil {
			closeBody(r)
			return nil, err
		}
		r = r.Clone(r.Context())
		txn.Inject(r.Header, tx)
	}
	return base.RoundTrip(r)
}

// closeBody closes the body of a request that is not sent, as RoundTrip promises.
func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close() // it is not read
	}
}

func (t *Transport) allows(r *http.Request) bool {
	return slices.ContainsFunc(t.Hosts, func(host string) bool { return strings.EqualFold(host, r.URL.Host) })
}
