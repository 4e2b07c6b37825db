// Package snapshots decides when a node takes a snapshot, and keeps its log bounded in bytes.
//
//	s, err := snapshots.New(log, store, bytes, logger)  // before raft starts
//	s.SetRaft(raft)
//	go s.Run(stop)
//	s.Count(entries)                                    // entries are being stored
//
// scheduler.go takes the snapshots; log.go measures and truncates the log; repeated.go helps a node
// that raft sends the same snapshot again and again.
package snapshots
