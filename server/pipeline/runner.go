package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/server/limits"
	"github.com/txmgr/txmgr/txn"
)

// Config limits the commands.
type Config struct {
	// CallTimeout is the time limit of a command.
	CallTimeout time.Duration
	// MaxCommands is the most commands in flight in all streams.
	MaxCommands int
	// MaxPipelineCommands is the most commands in flight in one stream.
	MaxPipelineCommands int
}

// Runner executes the commands of all streams. Make it with [New].
type Runner struct {
	cfg         Config
	commands    atomic.Int64 // running
	idleWorkers atomic.Int64 // goroutines without a command
}

// New makes a runner.
func New(cfg Config) *Runner { return &Runner{cfg: cfg} }

// Commands returns how many commands are running.
func (r *Runner) Commands() int64 { return r.commands.Load() }

// count counts one more command, until [Call.Finish]. The error says that there are too many.
func (r *Runner) count() error {
	if n := r.commands.Add(1); n > int64(r.cfg.MaxCommands) {
		err := fmt.Errorf("%w: %d commands are running, which is the limit", txn.ErrUnavailable, r.cfg.MaxCommands)
		return &wire.RetryAfterError{After: limits.RetryAfter, Err: err}
	}
	return nil
}

// Executor carries out the commands of one stream.
type Executor interface {
	// Blocks reports whether Execute may block. Then it is called on a goroutine of its own, else
	// on that which reads the stream.
	Blocks(c *Call) bool
	// Execute carries out a command and sets the result of its reply. With [ErrDeferred] the
	// command is not finished: the executor calls [Call.Finish] later, from any goroutine. It
	// must not panic.
	Execute(c *Call) error
	// Ended is called for each command that has ended, and returns the failure for the reply;
	// nil if err is nil.
	Ended(c *Call, err error) *txmgrv1.Failure
}

// ErrDeferred says that a command waits without a goroutine.
var ErrDeferred = errors.New("deferred")

// Call is one command and its reply.
type Call struct {
	Context  context.Context // with the command's deadline
	Command  *txmgrv1.Command
	Started  time.Time
	Reply    txmgrv1.Reply
	pipeline *pipeline
}

// Finish queues the reply for sending. err is nil if the command succeeded.
func (c *Call) Finish(err error) {
	p := c.pipeline
	p.runner.commands.Add(-1)
	if f := p.executor.Ended(c, err); f != nil {
		c.Reply.Result = &txmgrv1.Reply_Failure{Failure: f}
	}
	p.mu.Lock()
	p.replies = append(p.replies, &c.Reply)
	if len(p.replies) == 1 {
		p.changed.Broadcast()
	}
	p.mu.Unlock()
}
