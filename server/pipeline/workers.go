package pipeline

import (
	"context"
	"time"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
)

// queuedCall is a command that waits for a worker.
type queuedCall struct {
	ctx     context.Context
	command *txmgrv1.Command
	started time.Time
}

// start gives a call to an idle worker, or to a new one.
func (p *pipeline) start(j queuedCall) {
	select {
	case p.calls <- j:
	default:
		go p.worker(j)
	}
}

// worker executes calls until there are no more, or enough other workers are idle. A
// goroutine per call would cost more than everything else that is done here: the stack of a
// new one has to grow to what a command needs.
func (p *pipeline) worker(j queuedCall) {
	for more := true; more; {
		p.runCall(j)
		if p.runner.idleWorkers.Add(1) > maxIdleWorkers {
			p.runner.idleWorkers.Add(-1)
			return
		}
		j, more = <-p.calls
		p.runner.idleWorkers.Add(-1)
	}
}

// maxIdleWorkers is how many workers of all pipelines together may be idle. Each holds about
// 8 KiB.
const maxIdleWorkers = 4096

// runCall executes one command. A deferred one is finished later.
func (p *pipeline) runCall(j queuedCall) {
	c := &Call{Context: j.ctx, Command: j.command, Started: j.started, pipeline: p}
	c.Reply.Seq = j.command.GetSeq()
	err := p.runner.count()
	if err == nil {
		err = p.executor.Execute(c)
	}
	if err != ErrDeferred {
		c.Finish(err)
	}
}
