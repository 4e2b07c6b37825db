package membership

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// autopilotInterval is how often a leader polls the other nodes.
const autopilotInterval = time.Second

// maxTrailingLogs is how many entries behind a learner may be when it becomes a voter.
const maxTrailingLogs = 256

// autopilot is what a leader knows about the other nodes beyond the log: the time of the last
// contact, and how far they have applied the log.
type autopilot struct {
	mu        sync.Mutex
	followers map[string]followerProgress // guarded by mu: by node id; empty when not leading
}

type followerProgress struct {
	at      time.Time
	applied uint64
}

// describe fills in a member's last contact and lag, as far as known.
func (s *autopilot) describe(m *admin.Member, commit uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.followers) == 0 {
		return
	}
	h, ok := s.followers[m.ID]
	switch {
	case m.Self:
		m.LastContact, m.LogLag = 0, 0
	case ok:
		m.LastContact = txn.Duration(time.Since(h.at).Round(time.Millisecond))
		m.LogLag = int64(commit - min(h.applied, commit))
	}
}

func (s *autopilot) record(id string, applied uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.followers == nil {
		s.followers = make(map[string]followerProgress)
	}
	s.followers[id] = followerProgress{time.Now(), applied}
}

func (s *autopilot) drop(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.followers, id)
}

func (s *autopilot) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.followers = nil
}

// RunAutopilot runs while this node leads: it polls the other nodes, records the name, API
// address and version that they report, and promotes learners that have caught up.
func (c *Cluster) RunAutopilot(ctx context.Context) {
	defer c.autopilot.reset()
	ticker := time.NewTicker(autopilotInterval)
	defer ticker.Stop()
	c.autopilot.record(string(c.id), c.raft.AppliedIndex())
	if err := c.upsertMember(ctx, c.identity()); err != nil {
		c.conf.Logger.Warn("this node is not in the list of members yet", "error", err)
	}
	for {
		c.reconcileMembers(ctx)
		select {
		case <-ticker.C:
			c.pollMembers(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// pollMembers asks every other node once, all at the same time: one that hangs delays no other.
func (c *Cluster) pollMembers(ctx context.Context) {
	asking, cancel := context.WithTimeout(ctx, peerCallTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for _, s := range c.Servers() {
		if s.ID == c.id {
			continue
		}
		wg.Go(func() {
			who, err := c.peerServer.Hello(asking, string(s.Address))
			if err != nil || who.ID != string(s.ID) {
				return
			}
			c.autopilot.record(who.ID, who.Applied)
			c.addressOverrides.record(who.ID, string(s.Address), who.RaftAddr)
			if err := c.upsertMember(ctx, who); err != nil && ctx.Err() == nil {
				c.conf.Logger.Warn("failed to update member metadata", "node", who.ID, "error", err)
			}
			// A node with an empty log may still take the log of another cluster, and the
			// entries that it has applied may be another cluster's.
			if s.Suffrage != raft.Voter && !who.Empty && who.Cluster == c.clusterIdentity().Cluster && who.Applied+maxTrailingLogs >= c.raft.CommitIndex() {
				c.promoteLearner(s)
			}
		})
	}
	wg.Wait()
}

// promoteLearner makes a learner a voter, unless a change of the membership is in progress: it
// may be removing that learner.
func (c *Cluster) promoteLearner(s raft.Server) {
	if !c.mu.TryLock() {
		return // the next round comes soon
	}
	defer c.mu.Unlock()
	if !slices.Contains(c.Servers(), s) {
		return
	}
	if err := c.raft.AddVoter(s.ID, s.Address, 0, configChangeTimeout).Error(); err != nil {
		c.conf.Logger.Warn("a learner has caught up and cannot be made a voter", "node", s.ID, "error", err)
		return
	}
	c.conf.Logger.Info("a learner has caught up: it votes now", "node", s.ID)
}
