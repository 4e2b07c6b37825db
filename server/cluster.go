package server

import (
	"context"
	"fmt"
	"time"

	"connectrpc.com/connect"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// clusterService is the ClusterService.
type clusterService struct{ c admin.Cluster }

func (c *clusterService) Status(ctx context.Context, _ *txmgrv1.StatusRequest) (*txmgrv1.StatusResponse, error) {
	s, err := c.c.Status(ctx)
	return wire.FromStatus(s), err
}

func (c *clusterService) Doctor(ctx context.Context, r *txmgrv1.DoctorRequest) (*txmgrv1.DoctorResponse, error) {
	ds, err := c.c.Doctor(ctx, r.GetParticipant())
	return wire.FromChecks(ds), err
}

func (c *clusterService) Join(ctx context.Context, r *txmgrv1.JoinRequest) (*txmgrv1.Member, error) {
	by := actor(ctx, r.GetBy())
	if err := checkAuditText(by, r.GetReason()); err != nil {
		return nil, err
	}
	if r.GetAddress() == "" {
		return nil, fmt.Errorf("%w: address is missing: say where the node listens for the others, such as 10.0.0.4:7461", txn.ErrInvalid)
	}
	m, err := c.c.Join(ctx, r.GetAddress(), by, r.GetReason())
	return wire.FromMember(m), err
}

func (c *clusterService) Remove(ctx context.Context, r *txmgrv1.RemoveMemberRequest) (*txmgrv1.RemoveMemberResponse, error) {
	by := actor(ctx, r.GetBy())
	if err := requireReason(by, r.GetReason()); err != nil {
		return nil, err
	}
	if r.GetNode() == "" {
		return nil, fmt.Errorf("%w: node is missing: give its id or name", txn.ErrInvalid)
	}
	return &txmgrv1.RemoveMemberResponse{}, c.c.Remove(ctx, r.GetNode(), by, r.GetReason())
}

func (c *clusterService) TransferLeader(ctx context.Context, r *txmgrv1.TransferLeaderRequest) (*txmgrv1.TransferLeaderResponse, error) {
	by := actor(ctx, r.GetBy())
	if err := checkAuditText(by, r.GetReason()); err != nil {
		return nil, err
	}
	return &txmgrv1.TransferLeaderResponse{}, c.c.TransferLeader(ctx, r.GetNode(), by, r.GetReason())
}

func (c *clusterService) Leave(ctx context.Context, r *txmgrv1.LeaveRequest) (*txmgrv1.LeaveResponse, error) {
	by := actor(ctx, r.GetBy())
	if err := checkAuditText(by, r.GetReason()); err != nil {
		return nil, err
	}
	return &txmgrv1.LeaveResponse{}, c.c.Leave(ctx, by, r.GetReason())
}

func (c *clusterService) Resume(ctx context.Context, r *txmgrv1.ResumeRequest) (*txmgrv1.ResumeResponse, error) {
	by := actor(ctx, r.GetBy())
	if err := requireReason(by, r.GetReason()); err != nil {
		return nil, err
	}
	return &txmgrv1.ResumeResponse{}, c.c.ResumeRecovery(ctx, by, r.GetReason())
}

func (c *clusterService) Snapshot(ctx context.Context, _ *txmgrv1.SnapshotRequest, stream *connect.ServerStream[txmgrv1.SnapshotChunk]) error {
	ctx, cancel := withLifetime(ctx)
	defer cancel()
	w := &chunkWriter{ctx: ctx, stream: stream, x: callFrom(ctx)}
	// The headers tell the client that the backup is on its way, before there is any data.
	if err := w.send(nil); err != nil {
		return err
	}
	b, err := c.c.Backup(ctx, w)
	if err == nil {
		err = w.flush()
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return err
	}
	return w.send(&txmgrv1.SnapshotChunk{Backup: wire.FromBackup(b)})
}

// chunkSize is the most bytes of one message of a Snapshot, and chunkWriteTimeout how long
// the client may take to receive it.
const (
	chunkSize         = 256 << 10
	chunkWriteTimeout = 30 * time.Second
)

// chunkWriter splits what is written to it into messages of a stream.
type chunkWriter struct {
	ctx    context.Context
	stream *connect.ServerStream[txmgrv1.SnapshotChunk]
	x      *callState
	buffer []byte
}

// Write implements [io.Writer].
func (c *chunkWriter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(len(rest), chunkSize-len(c.buffer))
		c.buffer, rest = append(c.buffer, rest[:n]...), rest[n:]
		if len(c.buffer) < chunkSize {
			continue
		}
		if err := c.flush(); err != nil {
			return len(p) - len(rest), err
		}
	}
	return len(p), nil
}

func (c *chunkWriter) flush() error {
	if len(c.buffer) == 0 {
		return nil
	}
	err := c.send(&txmgrv1.SnapshotChunk{Data: c.buffer})
	c.buffer = c.buffer[:0]
	return err
}

func (c *chunkWriter) send(m *txmgrv1.SnapshotChunk) error {
	if err := context.Cause(c.ctx); err != nil {
		return err
	}
	_ = c.x.rc.SetWriteDeadline(time.Now().Add(chunkWriteTimeout))
	defer func() { _ = c.x.rc.SetWriteDeadline(time.Time{}) }() // making the next one may take longer
	return c.stream.Send(m)
}
