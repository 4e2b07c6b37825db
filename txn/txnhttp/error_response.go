package txnhttp

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/txmgr/txmgr/txn"
)

// errorBody is the body of the package's own error answers.
type errorBody struct {
	Error struct {
		Code        txn.Code `json:"code"`
		Message     string   `json:"message"`
		Transaction string   `json:"transaction,omitempty"`
	} `json:"error"`
}

// writeError answers in place of the handler.
func writeError(rw http.ResponseWriter, status int, err error) {
	var f errorBody
	f.Error.Code, f.Error.Message = txn.CodeOf(err), err.Error()
	var e *txn.Error
	if errors.As(err, &e) && !e.ID.IsZero() {
		f.Error.Transaction = e.ID.String()
	}
	setOutcomeHeader(rw, err)
	h := rw.Header()
	if status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "1")
	}
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	rw.WriteHeader(status)
	_ = json.NewEncoder(rw).Encode(f) // a failure means that the client has disconnected
}

// setOutcomeHeader tells the caller that the transaction is rolled back, if that is certain.
func setOutcomeHeader(rw http.ResponseWriter, err error) {
	if errors.Is(err, txn.ErrRolledBack) && !errors.Is(err, txn.ErrInDoubt) {
		rw.Header().Set(HeaderOutcome, txn.RolledBack.String())
	}
}
