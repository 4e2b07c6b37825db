package client

import (
	"context"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/txn"
)

// Scan compares what is prepared at a participant, or at all of them when it is
// empty, with what the coordinator knows, and finishes it when apply is true.
func (c *Client) Scan(ctx context.Context, participant string, apply bool) ([]txn.ScanResult, error) {
	var res *txmgrv1.ScanResponse
	err := c.fanoutCall(ctx, "scan", txn.ID{}, func(ctx context.Context, e *endpoint) (err error) {
		res, err = e.inDoubt.Scan(ctx, &txmgrv1.ScanRequest{Participant: wire.Text(participant), Apply: apply})
		return err
	})
	if err != nil {
		return nil, err
	}
	return translated(wire.ToScanResults(res))
}

// InDoubts lists the transactions that a person may have to look at.
func (c *Client) InDoubts(ctx context.Context) ([]txn.InDoubt, error) {
	var res *txmgrv1.ListDoubtsResponse
	err := c.longCall(ctx, "doubt list", txn.ID{}, func(ctx context.Context, e *endpoint) (err error) {
		res, err = e.inDoubt.List(ctx, &txmgrv1.ListDoubtsRequest{})
		return err
	})
	if err != nil {
		return nil, err
	}
	return translated(wire.ToInDoubts(res))
}

// Explain tells all that is known about a transaction, and asks its participants.
func (c *Client) Explain(ctx context.Context, id txn.ID) (txn.Explanation, error) {
	var res *txmgrv1.Explanation
	err := c.fanoutCall(ctx, "doubt explain", id, func(ctx context.Context, e *endpoint) (err error) {
		res, err = e.inDoubt.Explain(ctx, &txmgrv1.ExplainRequest{Id: id.String()})
		return err
	})
	if err != nil {
		return txn.Explanation{}, err
	}
	return translated(wire.ToExplanation(res))
}

// Retry drives a transaction now, whatever its backoff; the zero id means all that
// are in doubt.
func (c *Client) Retry(ctx context.Context, id txn.ID) error {
	r := &txmgrv1.RetryRequest{}
	if !id.IsZero() {
		r.Id = id.String()
	}
	return c.fanoutCall(ctx, "doubt retry", id, func(ctx context.Context, e *endpoint) error {
		_, err := e.inDoubt.Retry(ctx, r)
		return err
	})
}

// Resolve records a person's word about a transaction in doubt.
// [txn.ErrConflict]: it is not in doubt, or only votes can commit it.
func (c *Client) Resolve(ctx context.Context, id txn.ID, r txn.Resolution) (txn.Outcome, error) {
	request := wire.FromResolution(id, r)
	return c.outcomeCall(ctx, c.fanoutCall, "doubt resolve", id, func(ctx context.Context, e *endpoint) (*txmgrv1.Outcome, error) {
		return e.inDoubt.Resolve(ctx, request)
	})
}

// Forget takes a hazard off a finished transaction. [txn.ErrConflict]: it is not
// finished.
func (c *Client) Forget(ctx context.Context, id txn.ID, by, reason string) (txn.Outcome, error) {
	request := &txmgrv1.ForgetRequest{Id: id.String(), By: wire.Text(by), Reason: wire.Text(reason)}
	return c.outcomeCall(ctx, c.unaryCall, "doubt forget", id, func(ctx context.Context, e *endpoint) (*txmgrv1.Outcome, error) {
		return e.inDoubt.Forget(ctx, request)
	})
}

// Audit lists what people did, oldest first.
func (c *Client) Audit(ctx context.Context, f txn.AuditFilter) ([]txn.AuditRecord, error) {
	var res *txmgrv1.AuditResponse
	err := c.longCall(ctx, "audit list", f.ID, func(ctx context.Context, e *endpoint) (err error) {
		res, err = e.inDoubt.Audit(ctx, wire.FromAuditFilter(f))
		return err
	})
	if err != nil {
		return nil, err
	}
	return translated(wire.ToAudit(res))
}

// Doctor looks for everything that is known to go wrong, at one participant or,
// when the name is empty, at the coordinator and all participants.
func (c *Client) Doctor(ctx context.Context, participant string) ([]txn.Check, error) {
	var res *txmgrv1.DoctorResponse
	err := c.fanoutCall(ctx, "doctor", txn.ID{}, func(ctx context.Context, e *endpoint) (err error) {
		res, err = e.cluster.Doctor(ctx, &txmgrv1.DoctorRequest{Participant: wire.Text(participant)})
		return err
	})
	if err != nil {
		return nil, err
	}
	return wire.ToChecks(res), nil
}
