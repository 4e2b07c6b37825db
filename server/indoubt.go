package server

import (
	"context"
	"fmt"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// inDoubtService is the InDoubtService.
type inDoubtService struct{ c admin.InDoubts }

func (d *inDoubtService) Scan(ctx context.Context, r *txmgrv1.ScanRequest) (*txmgrv1.ScanResponse, error) {
	fs, err := d.c.Scan(ctx, r.GetParticipant(), r.GetApply())
	return wire.FromScanResults(fs), err
}

func (d *inDoubtService) List(ctx context.Context, _ *txmgrv1.ListInDoubtRequest) (*txmgrv1.ListInDoubtResponse, error) {
	ds, err := d.c.InDoubts(ctx)
	return wire.FromInDoubts(ds), err
}

func (d *inDoubtService) Explain(ctx context.Context, r *txmgrv1.ExplainRequest) (*txmgrv1.Explanation, error) {
	id, err := txn.ParseID(r.GetId())
	if err != nil {
		return nil, err
	}
	e, err := d.c.Explain(ctx, id)
	return wire.FromExplanation(e), err
}

func (d *inDoubtService) Retry(ctx context.Context, r *txmgrv1.RetryRequest) (*txmgrv1.RetryResponse, error) {
	var id txn.ID
	if r.GetId() != "" {
		var err error
		if id, err = txn.ParseID(r.GetId()); err != nil {
			return nil, err
		}
	}
	return &txmgrv1.RetryResponse{}, d.c.Retry(ctx, id)
}

func (d *inDoubtService) Resolve(ctx context.Context, r *txmgrv1.ResolveRequest) (*txmgrv1.Outcome, error) {
	id, err := txn.ParseID(r.GetId())
	if err != nil {
		return nil, err
	}
	resolution, err := wire.ToResolution(r)
	if err != nil {
		return nil, err
	}
	resolution.By = actor(ctx, resolution.By)
	if err := requireReason(resolution.By, resolution.Reason); err != nil {
		return nil, err
	}
	return outcome(d.c.Resolve(ctx, id, resolution))
}

func (d *inDoubtService) Forget(ctx context.Context, r *txmgrv1.ForgetRequest) (*txmgrv1.Outcome, error) {
	id, err := txn.ParseID(r.GetId())
	if err != nil {
		return nil, err
	}
	by := actor(ctx, r.GetBy())
	if err := requireReason(by, r.GetReason()); err != nil {
		return nil, err
	}
	return outcome(d.c.Forget(ctx, id, by, r.GetReason()))
}

func (d *inDoubtService) Audit(ctx context.Context, r *txmgrv1.AuditRequest) (*txmgrv1.AuditResponse, error) {
	f, err := wire.ToAuditFilter(r)
	if err != nil {
		return nil, err
	}
	as, err := d.c.Audit(ctx, f)
	return wire.FromAudit(as), err
}

// requireReason rejects an operator's action without a reason, or with a text that the audit
// log could not keep.
func requireReason(by, reason string) error {
	if reason == "" && len(by) <= txn.MaxName {
		return fmt.Errorf("%w: reason is missing: say why, the audit keeps it", txn.ErrInvalid)
	}
	return checkAuditText(by, reason)
}

// checkAuditText rejects texts that are too long for the audit log.
func checkAuditText(by, reason string) error {
	if err := checkActor(by); err != nil {
		return err
	}
	if len(reason) > txn.MaxReason {
		return fmt.Errorf("%w: reason has %d bytes; at most %d", txn.ErrInvalid, len(reason), txn.MaxReason)
	}
	return nil
}

func checkActor(by string) error {
	if len(by) > txn.MaxName {
		return fmt.Errorf("%w: by has %d bytes; at most %d", txn.ErrInvalid, len(by), txn.MaxName)
	}
	return nil
}
