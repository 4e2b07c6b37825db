// Package readindex makes reads of the leader linearizable, as raft's ReadIndex does: a read is answered
// when a quorum has acknowledged, to requests that were sent after the read arrived, that this node still
// leads. [ReadIndex] shares one round between waiting readers; [AckTracker] knows which
// acknowledgements are recent enough.
package readindex
