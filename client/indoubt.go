package client

import (
	"context"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// Scan implements [admin.InDoubts].
func (c adminCalls) Scan(ctx context.Context, participant string, apply bool) ([]admin.ScanResult, error) {
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

// InDoubts implements [admin.InDoubts].
func (c adminCalls) InDoubts(ctx context.Context) ([]admin.InDoubt, error) {
	var res *txmgrv1.ListInDoubtResponse
	err := c.longCall(ctx, "indoubt list", txn.ID{}, func(ctx context.Context, e *endpoint) (err error) {
		res, err = e.inDoubt.List(ctx, &txmgrv1.ListInDoubtRequest{})
		return err
	})
	if err != nil {
		return nil, err
	}
	return translated(wire.ToInDoubts(res))
}

// Explain implements [admin.InDoubts].
func (c adminCalls) Explain(ctx context.Context, id txn.ID) (admin.Explanation, error) {
	var res *txmgrv1.Explanation
	err := c.fanoutCall(ctx, "indoubt explain", id, func(ctx context.Context, e *endpoint) (err error) {
		res, err = e.inDoubt.Explain(ctx, &txmgrv1.ExplainRequest{Id: id.String()})
		return err
	})
	if err != nil {
		return admin.Explanation{}, err
	}
	return translated(wire.ToExplanation(res))
}

// Retry implements [admin.InDoubts].
func (c adminCalls) Retry(ctx context.Context, id txn.ID) error {
	r := &txmgrv1.RetryRequest{}
	if !id.IsZero() {
		r.Id = id.String()
	}
	return c.fanoutCall(ctx, "indoubt retry", id, func(ctx context.Context, e *endpoint) error {
		_, err := e.inDoubt.Retry(ctx, r)
		return err
	})
}

// Resolve implements [admin.InDoubts].
func (c adminCalls) Resolve(ctx context.Context, id txn.ID, r admin.Resolution) (txn.Outcome, error) {
	request := wire.FromResolution(id, r)
	return c.outcomeCall(ctx, c.fanoutCall, "indoubt resolve", id, func(ctx context.Context, e *endpoint) (*txmgrv1.Outcome, error) {
		return e.inDoubt.Resolve(ctx, request)
	})
}

// Forget implements [admin.InDoubts].
func (c adminCalls) Forget(ctx context.Context, id txn.ID, by, reason string) (txn.Outcome, error) {
	request := &txmgrv1.ForgetRequest{Id: id.String(), By: wire.Text(by), Reason: wire.Text(reason)}
	return c.outcomeCall(ctx, c.unaryCall, "indoubt forget", id, func(ctx context.Context, e *endpoint) (*txmgrv1.Outcome, error) {
		return e.inDoubt.Forget(ctx, request)
	})
}

// Audit implements [admin.InDoubts].
func (c adminCalls) Audit(ctx context.Context, f admin.AuditFilter) ([]admin.AuditRecord, error) {
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

// Doctor implements [admin.Cluster].
func (c adminCalls) Doctor(ctx context.Context, participant string) ([]admin.Check, error) {
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
