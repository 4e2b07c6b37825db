package peer

import (
	"errors"
	"fmt"
	"strings"

	"github.com/txmgr/txmgr/internal/textutil"
	"github.com/txmgr/txmgr/txn"
)

// Why a node is refused. All three come with [txn.ErrDenied], and are preserved on the
// wire.
var (
	// ErrRemoved: the node was removed from the cluster, permanently. Config.Admit returns it.
	ErrRemoved = fmt.Errorf("%w: the node was removed", txn.ErrDenied)
	// ErrClusterMismatch: the node belongs to another cluster, or to another incarnation of it.
	ErrClusterMismatch = fmt.Errorf("%w: another cluster", txn.ErrDenied)
	// ErrDuplicateID: the node has the id of the node that it connects to.
	ErrDuplicateID = fmt.Errorf("%w: two nodes with one id", txn.ErrDenied)
)

// ErrIDMismatch: another node than the intended one is at the address. Comes with
// [txn.ErrUnavailable].
var ErrIDMismatch = fmt.Errorf("%w: another node is at this address", txn.ErrUnavailable)

var (
	// errNoGroup: the node does not serve the raft group of the stream. Comes with [txn.ErrDenied], and
	// is preserved on the wire.
	errNoGroup = fmt.Errorf("%w: unknown group", txn.ErrDenied)
	// errMalformed: the bytes do not follow this protocol.
	errMalformed = errors.New("not the peer protocol")
	// errVersion: they do, but in another version of it.
	errVersion = errors.New("another version of the protocol of peers")
	// errTLS: the two sides do not trust each other, or one of them has no TLS.
	errTLS = errors.New("TLS")
)

// errClosed: the server was closed.
var errClosed = fmt.Errorf("%w: the port for peers is closed", txn.ErrUnavailable)

// NotLeaderError is what a [Handler] returns when another node must be asked. Callers
// follow it.
type NotLeaderError struct {
	// Leader is the raft address of the leader; empty when none is known.
	Leader string
}

// Error names the leader.
func (e *NotLeaderError) Error() string {
	if e.Leader == "" {
		return txn.ErrUnavailable.Error() + ": this node is not the leader and knows no leader"
	}
	return txn.ErrUnavailable.Error() + ": this node does not lead; the one at " + e.Leader + " does"
}

// Unwrap returns [txn.ErrUnavailable].
func (e *NotLeaderError) Unwrap() error { return txn.ErrUnavailable }

// fault is an error on the wire.
type fault struct {
	Code   txn.Code `json:"code,omitempty"`   // empty: no error
	Reason string   `json:"reason,omitempty"` // one of reasons, or empty
	Text   string   `json:"text,omitempty"`
	Leader string   `json:"leader,omitempty"` // of NotLeaderError
}

var reasons = map[string]error{"removed": ErrRemoved, "foreign": ErrClusterMismatch, "twin": ErrDuplicateID, "group": errNoGroup}

func faultOf(err error) fault {
	if err == nil {
		return fault{}
	}
	f := fault{Code: txn.CodeOf(err), Text: limitText(err.Error())}
	for reason, sentinel := range reasons {
		if errors.Is(err, sentinel) {
			f.Reason = reason
		}
	}
	if n := (*NotLeaderError)(nil); errors.As(err, &n) {
		f.Leader = limitText(n.Leader)
	}
	return f
}

// err is the inverse of faultOf, as far as callers can observe.
func (f fault) err() error {
	switch {
	case f.Code == "" || f.Code == txn.CodeOK:
		return nil
	case f.Leader != "":
		return &NotLeaderError{f.Leader}
	}
	e := &remoteError{text: f.Text, is: reasons[f.Reason]}
	if e.is == nil {
		e.is = f.Code.Sentinel()
	}
	if e.text == "" {
		e.text = e.is.Error()
	}
	return e
}

// remoteError is the error that another node answered, with its text.
type remoteError struct {
	text string
	is   error
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.is }

// limitText makes a text valid UTF-8, of at most maxText bytes.
func limitText(s string) string {
	return strings.ToValidUTF8(textutil.Limit(s, maxText), "")
}
