package pipeline

import (
	"runtime"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
)

// maxYields is how often the writer yields to other goroutines before it sends a message.
const maxYields = 3

// write sends replies until every command has one. When a reply cannot be sent, it calls
// stop, which ends the reading and the commands, and drops the rest, so that acquire never
// waits forever. It returns nil if the client is gone.
func (p *pipeline) write(stop func()) error {
	var sending []*txmgrv1.Reply
	var sendErr error
	for {
		p.mu.Lock()
		p.inflight -= len(sending)
		p.changed.Broadcast()
		for len(p.replies) == 0 && !(p.readDone && p.inflight == 0) {
			p.changed.Wait()
		}
		// Yield to commands that are about to finish, as long as more do: this fills the
		// message at the price of a few yields, and costs nothing if no other goroutine is
		// runnable.
		for had, yields := 0, 0; yields < maxYields && len(p.replies) > had; yields++ {
			had = len(p.replies)
			p.mu.Unlock()
			runtime.Gosched()
			p.mu.Lock()
		}
		// The slices alternate; clear lets the sent replies be collected.
		clear(sending)
		sending, p.replies = p.replies, sending[:0]
		p.mu.Unlock()

		if len(sending) == 0 {
			if connect.CodeOf(sendErr) != connect.CodeInternal { // else a reply was not encodable
				return nil
			}
			return sendErr
		}
		if sendErr != nil {
			continue
		}
		if sendErr = p.send(sending); sendErr != nil {
			stop()
		}
	}
}

// maxReplyBytes is about the most bytes of one message of replies. A single reply to Get may
// exceed it.
const maxReplyBytes = 1 << 20

func (p *pipeline) send(replies []*txmgrv1.Reply) error {
	for len(replies) > 0 {
		n, size := 0, 0
		for n < len(replies) && (n == 0 || size < maxReplyBytes) {
			if replies[n].GetGet() != nil || replies[n].GetFailure() != nil {
				size += proto.Size(replies[n])
			}
			size += 64
			n++
		}
		if err := p.stream.Send(&txmgrv1.ReplyBatch{Replies: replies[:n]}); err != nil {
			return err
		}
		replies = replies[n:]
	}
	return nil
}
