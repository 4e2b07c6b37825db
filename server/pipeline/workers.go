package pipeline

// start executes a command; one that may block on an idle worker, or on a new one.
func (p *pipeline) start(c *Call) {
	c.Reply.Seq = c.Command.GetSeq()
	if err := p.runner.count(); err != nil {
		c.Finish(err)
		return
	}
	if !p.executor.Blocks(c) {
		p.execute(c)
		return
	}
	select {
	case p.calls <- c:
	default:
		go p.worker(c)
	}
}

// worker executes calls until there are no more, or enough other workers are idle. A
// goroutine per call would cost more than everything else that is done here: the stack of a
// new one has to grow to what a command needs.
func (p *pipeline) worker(c *Call) {
	for more := true; more; {
		p.execute(c)
		if p.runner.idleWorkers.Add(1) > maxIdleWorkers {
			p.runner.idleWorkers.Add(-1)
			return
		}
		c, more = <-p.calls
		p.runner.idleWorkers.Add(-1)
	}
}

// maxIdleWorkers is how many workers of all pipelines together may be idle. Each holds about
// 8 KiB.
const maxIdleWorkers = 4096

// execute executes one command. A deferred one is finished later.
func (p *pipeline) execute(c *Call) {
	if err := p.executor.Execute(c); err != ErrDeferred {
		c.Finish(err)
	}
}
