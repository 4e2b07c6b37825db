// Package raftguard starts hashicorp/raft such that its known defects do no harm: [Start] starts it in an
// [Env], and [Transport] wraps the transport to the other nodes. Each defect has a file, whose first
// comment names it and the decision about it:
//
//	repeated_snapshot.go      the same snapshot is sent for ever
//	older_snapshot.go         a snapshot that is older than the state is installed
//	membership_snapshot.go    no snapshot is taken after a change of members
//	pipeline.go               the pipeline stops for good
//	heartbeat.go              heartbeats are handled concurrently with the main loop
//	verify_leader.go          old acknowledgements count in VerifyLeader
//	interrupted_bootstrap.go  a crash during the bootstrap leaves a term without an entry
//	messages.go               what is expected is logged as an error, many times
//
// A vote that a crash interrupted is repaired by package logstore, which writes it.
package raftguard
