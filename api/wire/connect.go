package wire

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"connectrpc.com/connect"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/txn"
)

// Headers of a failed call, so that a shell script need not decode the detail.
const (
	HeaderCode       = "Txmgr-Code"
	HeaderState      = "Txmgr-State"
	HeaderRetryAfter = "Retry-After" // whole seconds, as in HTTP
)

// Headers between the nodes of a cluster and their clients.
const (
	// HeaderLeader is the URL of the leader's API, in the responses of followers that know
	// it: a client that can reach the leader saves the forwarding.
	HeaderLeader = "Txmgr-Leader"
	// HeaderStale, set to "true" by a client, allows the node that is called to answer a read
	// from what it has applied so far.
	HeaderStale = "Txmgr-Stale"
	// HeaderForwarded marks a call that another node has forwarded, and names that node. The
	// call is not forwarded again.
	HeaderForwarded = "Txmgr-Forwarded"
)

var connectCodes = map[txn.Code]connect.Code{
	txn.CodeUsage:       connect.CodeInvalidArgument,
	txn.CodeNotFound:    connect.CodeNotFound,
	txn.CodeConflict:    connect.CodeFailedPrecondition,
	txn.CodeRolledBack:  connect.CodeAborted,
	txn.CodeInDoubt:     connect.CodeUnknown,
	txn.CodeTimedOut:    connect.CodeDeadlineExceeded,
	txn.CodeUnavailable: connect.CodeUnavailable,
	txn.CodeDenied:      connect.CodePermissionDenied,
	txn.CodeError:       connect.CodeInternal,
}

// ToConnect gives the error that carries f through connect and gRPC: its code,
// f as a detail, and the headers above.
func ToConnect(f *txmgrv1.Failure) *connect.Error {
	code, ok := connectCodes[txn.Code(f.GetCode())]
	if !ok {
		code = connect.CodeInternal
	}
	return ToConnectAs(f, code)
}

// ToConnectAs is [ToConnect] with another code of connect: HTTP and gRPC, for example, tell
// an unauthenticated caller from one without permission.
func ToConnectAs(f *txmgrv1.Failure, code connect.Code) *connect.Error {
	e := connect.NewError(code, errors.New(f.GetMessage()))
	if d, err := connect.NewErrorDetail(f); err == nil {
		e.AddDetail(d)
	}
	e.Meta().Set(HeaderCode, f.GetCode())
	if f.GetState() != "" {
		e.Meta().Set(HeaderState, f.GetState())
	}
	if d, err := time.ParseDuration(f.GetRetryAfter()); err == nil && d > 0 {
		e.Meta().Set(HeaderRetryAfter, strconv.Itoa(int(math.Ceil(d.Seconds()))))
	}
	return e
}

// FromConnect gives back the error that a server sent through connect or gRPC. For an error
// that does not come from a txmgr server (a proxy, a broken connection, a message that could
// not be decoded) it chooses the sentinel by the code.
func FromConnect(err error) error {
	if err == nil {
		return nil
	}
	var e *connect.Error
	if !errors.As(err, &e) {
		return err
	}
	for _, d := range e.Details() {
		if v, derr := d.Value(); derr == nil {
			if f, ok := v.(*txmgrv1.Failure); ok {
				return ToError(f)
			}
		}
	}
	if s, perr := strconv.Atoi(e.Meta().Get(HeaderRetryAfter)); perr == nil && s > 0 {
		err = fmt.Errorf("%w: %s", txn.ErrUnavailable, e.Message())
		return &RetryAfterError{After: time.Duration(s) * time.Second, Err: err}
	}
	return fmt.Errorf("%w: %s", sentinelOf(e.Code()), e.Message())
}

var errProtocol = errors.New("the server did not answer as a txmgr server of this version does")

func sentinelOf(code connect.Code) error {
	switch code {
	case connect.CodeInvalidArgument, connect.CodeOutOfRange, connect.CodeResourceExhausted:
		// Means that the message is too large: a retry would not help.
		return txn.ErrInvalid
	case connect.CodePermissionDenied, connect.CodeUnauthenticated:
		return txn.ErrDenied
	case connect.CodeUnavailable, connect.CodeCanceled, connect.CodeDeadlineExceeded:
		return txn.ErrUnavailable
	default:
		return errProtocol
	}
}
