package peer

import (
	"io"
	"strings"
	"time"

	"github.com/hashicorp/raft"
)

const (
	raftPool    = 3
	raftTimeout = 10 * time.Second // for each message, as raft's own default
	stallTime   = 5 * time.Second  // without a byte in the middle of one
)

// aimed is raft's network transport with each message aimed at a node, and not only
// at an address: the transport beneath gets "id@address" for an address, by which it
// pools its streams, and which the stream layer takes apart again.
type aimed struct {
	*raft.NetworkTransport
	address func(id string) string // Config.Address
}

func (a *aimed) aim(id raft.ServerID, target raft.ServerAddress) raft.ServerAddress {
	if other := a.address(string(id)); other != "" {
		target = raft.ServerAddress(other)
	}
	return raft.ServerAddress(string(id) + "@" + string(target))
}

// aim takes apart what [aimed.aim] put together.
func aim(target raft.ServerAddress) (id, address string) {
	if i := strings.LastIndexByte(string(target), '@'); i >= 0 {
		return string(target[:i]), string(target[i+1:])
	}
	return "", string(target)
}

func (a *aimed) AppendEntriesPipeline(id raft.ServerID, target raft.ServerAddress) (raft.AppendPipeline, error) {
	return a.NetworkTransport.AppendEntriesPipeline(id, a.aim(id, target))
}

func (a *aimed) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	return a.NetworkTransport.AppendEntries(id, a.aim(id, target), args, resp)
}

func (a *aimed) RequestVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	return a.NetworkTransport.RequestVote(id, a.aim(id, target), args, resp)
}

func (a *aimed) RequestPreVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	return a.NetworkTransport.RequestPreVote(id, a.aim(id, target), args, resp)
}

func (a *aimed) InstallSnapshot(id raft.ServerID, target raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	return a.NetworkTransport.InstallSnapshot(id, a.aim(id, target), args, resp, data)
}

func (a *aimed) TimeoutNow(id raft.ServerID, target raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	return a.NetworkTransport.TimeoutNow(id, a.aim(id, target), args, resp)
}

// Transport is a transport of raft that can ask for votes beforehand, and be closed.
type Transport interface {
	raft.Transport
	raft.WithPreVote
	raft.WithClose
}

// Transport gives raft's transport over this port, which takes streams of others from
// now on; before, they are refused as unavailable. It is the same each time. raft
// closes it when it shuts down, and with it all streams: a port serves one raft.
func (p *Port) Transport() Transport {
	p.mu.Lock()
	if p.transport != nil {
		defer p.mu.Unlock()
		return p.transport
	}
	p.layer.open.Store(true)
	network := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: p.layer, MaxPool: raftPool, Timeout: raftTimeout, Logger: raftLogger(p.log),
	})
	p.transport = &aimed{network, p.conf.Address}
	closed := p.closed
	p.mu.Unlock()
	if closed {
		_ = p.transport.Close()
	}
	return p.transport
}
