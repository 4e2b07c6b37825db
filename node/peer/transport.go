package peer

import (
	"io"
	"strings"
	"time"

	"github.com/hashicorp/raft"
)

const (
	raftPool           = 3
	raftTimeout        = 10 * time.Second // for each message, as raft's own default
	defaultIdleTimeout = 5 * time.Second  // without a byte in the middle of one
)

// targetedTransport is raft's network transport, with each message addressed to a node and not only
// to an address: the transport beneath gets "id@address" as the address, by which it pools its
// streams, and which the stream layer splits again.
type targetedTransport struct {
	*raft.NetworkTransport
	address func(id string) string // Config.Address
}

func (a *targetedTransport) targetAddress(id raft.ServerID, target raft.ServerAddress) raft.ServerAddress {
	if other := a.address(string(id)); other != "" {
		target = raft.ServerAddress(other)
	}
	return raft.ServerAddress(string(id) + "@" + string(target))
}

// splitTarget is the inverse of targetedTransport.targetAddress.
func splitTarget(target raft.ServerAddress) (id, address string) {
	if i := strings.LastIndexByte(string(target), '@'); i >= 0 {
		return string(target[:i]), string(target[i+1:])
	}
	return "", string(target)
}

func (a *targetedTransport) AppendEntriesPipeline(id raft.ServerID, target raft.ServerAddress) (raft.AppendPipeline, error) {
	return a.NetworkTransport.AppendEntriesPipeline(id, a.targetAddress(id, target))
}

func (a *targetedTransport) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	return a.NetworkTransport.AppendEntries(id, a.targetAddress(id, target), args, resp)
}

func (a *targetedTransport) RequestVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	return a.NetworkTransport.RequestVote(id, a.targetAddress(id, target), args, resp)
}

func (a *targetedTransport) RequestPreVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	return a.NetworkTransport.RequestPreVote(id, a.targetAddress(id, target), args, resp)
}

func (a *targetedTransport) InstallSnapshot(id raft.ServerID, target raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	return a.NetworkTransport.InstallSnapshot(id, a.targetAddress(id, target), args, resp, data)
}

func (a *targetedTransport) TimeoutNow(id raft.ServerID, target raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	return a.NetworkTransport.TimeoutNow(id, a.targetAddress(id, target), args, resp)
}

// Transport is a raft transport that supports pre-votes and can be closed.
type Transport interface {
	raft.Transport
	raft.WithPreVote
	raft.WithClose
}

// Transport returns raft's transport over this server, and accepts streams of other nodes from now
// on; before, they are refused as unavailable. It is the same each time. raft closes it when it
// shuts down, and with it all streams: a server serves one raft instance.
func (p *Server) Transport() Transport {
	p.mu.Lock()
	if p.transport != nil {
		defer p.mu.Unlock()
		return p.transport
	}
	p.streamLayer.open.Store(true)
	network := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: p.streamLayer, MaxPool: raftPool, Timeout: raftTimeout, Logger: p.raftLogger(),
	})
	p.transport = &targetedTransport{network, p.conf.Address}
	closed := p.closed
	p.mu.Unlock()
	if closed {
		_ = p.transport.Close()
	}
	return p.transport
}
