// Package audit is what operators did, and the name and the reason that they give for it.
package audit

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/txmgr/txmgr/internal/textutil"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// defaultLimit is the limit of [Select] for a filter without one.
const defaultLimit = 1000

// Select returns the newest records that match, oldest first. The filter's age counts from now.
func Select(all []machine.AuditRecord, f admin.AuditFilter, now time.Time) []admin.AuditRecord {
	limit := f.Limit
	if limit <= 0 {
		limit = defaultLimit
	}
	oldest := now.Add(-f.Since).UnixMilli()
	out := []admin.AuditRecord{}
	for i := len(all) - 1; i >= 0 && len(out) < limit; i-- {
		if a := &all[i]; (f.ID.IsZero() || a.ID == f.ID) && (f.Since <= 0 || a.Wall >= oldest) {
			out = append(out, a.Public())
		}
	}
	slices.Reverse(out)
	return out
}

// Reason returns the operator's reason in the form that the log accepts. It is required.
func Reason(op string, id txn.ID, reason string) (string, error) {
	reason, err := OptionalReason(op, id, reason)
	if err == nil && reason == "" {
		err = &txn.Error{Op: op, ID: id, Err: txn.ErrInvalid, Detail: "no reason given: say why, the audit keeps it"}
	}
	return reason, err
}

// OptionalReason returns the operator's reason, which may be empty, in the form that the log accepts.
func OptionalReason(op string, id txn.ID, reason string) (string, error) {
	reason = strings.TrimSpace(reason)
	if len(reason) > txn.MaxReason {
		return "", &txn.Error{Op: op, ID: id, Err: txn.ErrInvalid, Detail: fmt.Sprintf("reason has %d bytes; at most %d", len(reason), txn.MaxReason)}
	}
	return reason, nil
}

// Operator returns the name of the operator in the form that the log accepts.
func Operator(by string) string { return textutil.Limit(textutil.OneLine(by), txn.MaxName) }
