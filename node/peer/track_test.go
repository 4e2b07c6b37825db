package peer

import (
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"
)

// canned answers every message with what it holds.
type canned struct {
	raft.LoopbackTransport
	term    uint64
	success bool
	err     error
}

func (c *canned) AppendEntries(_ raft.ServerID, _ raft.ServerAddress, _ *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	resp.Term, resp.Success = c.term, c.success
	return c.err
}

func (c *canned) InstallSnapshot(_ raft.ServerID, _ raft.ServerAddress, _ *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, _ io.Reader) error {
	resp.Term, resp.Success = c.term, c.success
	return c.err
}

func TestProgress(t *testing.T) {
	c := &canned{}
	tracked := Track(c)
	entries := []*raft.Log{{Index: 8}, {Index: 9}}
	beat := raft.AppendEntriesRequest{Term: 2}
	empty := raft.AppendEntriesRequest{Term: 2, PrevLogEntry: 7}
	full := raft.AppendEntriesRequest{Term: 2, PrevLogEntry: 7, Entries: entries}
	for i, step := range []struct {
		answer canned
		append *raft.AppendEntriesRequest // nil: a snapshot
		want   Progress                   // after it
	}{
		{canned{term: 2, success: true}, &empty, Progress{Appends: 1, Index: 7}},
		{canned{term: 2, success: true}, &full, Progress{Appends: 2, Index: 9}},
		{canned{term: 2, success: true}, &empty, Progress{Appends: 3, Index: 9}},
		{canned{term: 2}, &full, Progress{Appends: 3, Index: 9, Refused: 1}},
		{canned{term: 2, success: true}, &beat, Progress{Appends: 3, Index: 9, Refused: 1}},
		{canned{term: 3}, &full, Progress{Appends: 3, Index: 9, Refused: 1}},
		{canned{err: errors.New("cut"), success: true}, &full, Progress{Appends: 3, Index: 9, Refused: 1}},
		{canned{err: errors.New("cut"), success: true}, nil, Progress{Appends: 3, Index: 9, Refused: 1}},
		{canned{term: 2}, nil, Progress{Appends: 3, Index: 9, Refused: 1}},
		{canned{term: 2, success: true}, nil, Progress{Appends: 3, Index: 9, Snapshots: 1, Repeated: 1}},
		{canned{term: 2, success: true}, &beat, Progress{Appends: 3, Index: 9, Snapshots: 1, Repeated: 1}},
		{canned{term: 2}, &full, Progress{Appends: 3, Index: 9, Snapshots: 1, Repeated: 1, Refused: 1}},
		{canned{term: 2, success: true}, nil, Progress{Appends: 3, Index: 9, Snapshots: 2, Repeated: 2}},
		{canned{term: 2, success: true}, &full, Progress{Appends: 4, Index: 9, Snapshots: 2}},
	} {
		*c = step.answer
		var err error
		if step.append != nil {
			err = tracked.AppendEntries("n_b", "", step.append, &raft.AppendEntriesResponse{})
		} else {
			err = tracked.InstallSnapshot("n_b", "", &raft.InstallSnapshotRequest{Term: 2}, &raft.InstallSnapshotResponse{}, nil)
		}
		if !errors.Is(err, step.answer.err) {
			t.Errorf("step %d: %v", i, err)
		}
		step.want.Node = "n_b"
		if diff := cmp.Diff([]Progress{step.want}, tracked.Progress()); diff != "" {
			t.Errorf("step %d:\n%s", i, diff)
		}
	}
}
