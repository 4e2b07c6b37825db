// Package raftfsm runs the state machine of txn/machine as a state machine of hashicorp/raft: it
// decodes the bytes of the log into [machine.Entry] values, and writes and reads snapshots of the
// machine. It decides nothing. Call [New], give the [FSM] to raft, and propose entries made with
// [EncodeEntry]:
//
//	fsm := raftfsm.New(raftfsm.Config{OnFailure: func(err error) { log.Fatal(err) }})
//	entry, err := raftfsm.EncodeEntry(machine.Entry{Tick: tick, Wall: wall, Commands: commands})
//
// # Invariants
//
//  1. One meaning: equal entries have equal bytes, and bytes that decode have one meaning, on every node, for ever. The
//     files in testdata hold the formats; no test writes them.
//  2. Nothing is skipped. An entry that cannot be decoded stops the FSM: no later entry is applied,
//     no snapshot is taken of a state with a gap, and Config.OnFailure informs the node, which must
//     exit.
//  3. Nothing is guessed. Every bit of an entry and of a snapshot is covered by a checksum; an
//     error names what is wrong, and where. Data of a newer release is distinguished from damaged
//     data.
//  4. What can be proposed can be applied. The decoder's limits on an entry are the available
//     bytes, and [MaxEntry], which [FinishEntry] enforces before; a command that violates a rule is
//     refused by the machine, as a result.
//  5. Restore is all or nothing: it builds another machine, and switches to it when the last byte
//     has been checked.
//  6. Memory is bounded by what was read: a count or a length is checked against the bytes that are
//     left before anything is allocated for it.
//
// # Log entry, version 1
//
// Fixed numbers are little-endian. "uvarint" and "varint" are those of encoding/binary, the latter zig-zag; durations are
// varints of nanoseconds. A string is its length as uvarint and its bytes; a list is its length as uvarint and its elements;
// a flag is one byte, 0 or 1.
//
//	offset 0   1 byte    version
//	       1   4 bytes   CRC-32C of all bytes from offset 5 on
//	       5   8 bytes   tick
//	      13   8 bytes   wall clock of the leader, milliseconds since 1970
//	      21   4 bytes   number of commands
//	      25             the commands: kind, body
//
//	 1 Bootstrap          cluster string, interval duration, retention duration, retain uvarint
//	 2 Begin              id 16 bytes, name string, timeout duration, survival uvarint, expiry uvarint,
//	                      list of labels (key string, value string),
//	                      list of branches (participant string, payload string, session reference string)
//	 3 Enlist             id, branch: with Legacy set
//	 4 Commit             id, list of votes (branch uvarint, vote byte), client completes flag
//	 5 Rollback           id, cause byte, reason string
//	 6 Extend             id, timeout duration, survival uvarint, expiry uvarint
//	 7 ReportCompletion   id, list of completion reports (branch uvarint, state byte)
//	 8 ReportHeuristic    id, branch uvarint, heuristic outcome byte, detail string: with Legacy set
//	 9 Forget             id, reason string: without an operator
//	10 AddParticipant     name string, kind string, list of settings (key string, value string) in ascending order of
//	                      keys, coordinator prepares flag
//	11 RemoveParticipant  name string
//	12 Vote               id, list of votes as in Commit, client completes flag, reason string
//	13 Delegate           id, branch uvarint
//	14 Resolve            id, branch uvarint, outcome byte, by string, reason string
//	15 Forget             id, by string (not empty), reason string
//	16 ReportHeuristic    as 8: without Legacy
//	17 Resolve            as 14: with Undecided set
//	18 SetMember          node string, name string, api string, version string
//	19 RemoveMember       node string, by string, reason string
//	20 AddToken           id string, name string, role byte, hash 32 bytes, rate uvarint,
//	                      expires varint (milliseconds since 1970), by string: without a reason
//	21 RemoveToken        id string, by string, reason string
//	22 ResumeRecovery     by string, reason string
//	23 Begin              session 16 bytes (not all zero), then as 2: with Session set
//	24 OpenSession        id 16 bytes, name string, TTL duration
//	25 CloseSession       id 16 bytes
//	26 ExpireSessions     list of ids, 16 bytes each
//	27 Begin              mark's life uvarint, mark's tick uvarint (not both zero), session flag and, when it is 1, 16
//	                      bytes (not all zero), then as 2: with Mark set
//	28 Enlist             as 3: without Legacy
//	29 RegisterParticipant    as 10, then by string, reason string
//	30 UnregisterParticipant  name string, by string, reason string
//	31 EndedByApplication     id, branch uvarint, reason string
//	32 AddToken           as 20, then reason string (not empty)
//	33 RecordAction       action byte, subject string, by string, reason string
//	34 Begin              kind byte 2, 23 or 27 and what follows it there, then a byte for each branch: 1 for Decides, plus
//	                      2 for Revokes (not all zero)
//	35 Enlist             kind byte 3 or 28 and what follows it there, then such a byte (not zero)
//	36 Resolve            as 14: with Decides set
//
// The header comes first in the bytes and is known last: the node's proposal queue reserves it with
// [AppendHeader], appends the commands of many callers with [AppendCommand], and fills it in with
// [FinishEntry] when it proposes. Nothing is copied and nothing allocated.
//
// A kind is never renumbered, and its body never changes: a changed body gets a new kind. A release
// that adds a kind must not propose it before every node runs that release, since an older node
// stops at it.
//
// # Snapshot, version 5
//
// 7 bytes "txmgrsn" and the version, then blocks:
//
//	1 byte    kind: 1 header, 2 transactions, 3 end, 4 audit trail, 5 sessions
//	4 bytes   length of the body
//	4 bytes   CRC-32C of the block's number (from 1 on, 8 bytes), of kind and length, and of the body
//	          the body
//
// The first block is the header: the body of a Bootstrap, tick, sequence number, the count of
// decisions to commit, and those to roll back by cause (not known, client, timeout, vote-no,
// session-expired, operator), as uvarints, then the list of participants, each the body of an
// AddParticipant and a removed flag, the incarnation as uvarint, the recovery-paused flag, the time
// of the last resume as varint (milliseconds since 1970), the list of members, each the body of a
// SetMember, the list of removed nodes, each a string, the list of tokens (id string, name string,
// role byte, hash 32 bytes, rate uvarint, made varint, expires varint, by string), how many
// sessions ever expired, the number of sessions, and that of audit records, as uvarints. Blocks of
// audit records follow, oldest first, then blocks of sessions, then blocks of transactions. Each
// block has 128 KiB, exceeded by its last element at most; no element spans two blocks. The last
// block is the end: the number of transactions as uvarint, and the SHA-256 of all bytes before the
// block. Nothing may follow. An audit record is
//
//	seq uvarint, wall varint (milliseconds since 1970), tick uvarint, index uvarint, action byte, id 16 bytes,
//	branch uvarint, outcome byte, subject string, by string, reason string
//
// a session is
//
//	id 16 bytes, name string, state byte, TTL duration, opened varint (milliseconds since 1970), seq uvarint,
//	tick of its end uvarint
//
// and a transaction is
//
//	id 16 bytes, name string, state byte, cause byte, heuristic outcome byte, reason string, timeout duration,
//	survival uvarint, expiry uvarint, began varint (milliseconds since 1970), sum 8 bytes, seq uvarint, ended uvarint,
//	decided varint (milliseconds since 1970), decided tick uvarint, decided index uvarint, flags byte (1: client
//	completes, 2: reenlisted, 4: in a session, whose id of 16 bytes follows, 8: sessions were replaced), list of labels,
//	list of branches (participant string, payload string, session reference string, with 8: list of replaced session
//	references (string), vote byte, state byte, heuristic outcome byte, detail string)
//
// in no particular order. Since the checksum of a block covers its number, a missing, duplicate or
// displaced block is an error at that block; the end block detects a stream that was cut between
// two blocks.
//
// Version 6 is version 5 with the number of the raft group, as uvarint, at the end of the header.
// It can be restored if that number is 0; otherwise it is refused by name ([ErrOtherGroup]). No
// release writes it yet: a snapshot without a group is of group 0, and nodes of earlier releases,
// to which a leader may send a snapshot during an upgrade, read version 5 at most.
//
// Version 7 is version 6, of group 0, with one more flag of a transaction, 16: it is in the backup that the state
// was restored from, and not rolled back there. A restored state begins with version 7, and a
// snapshot has that version while a transaction has the flag, without which it would be taken for rolled
// back where it is committed.
//
// Earlier versions can be restored for ever. Version 4 has no replaced sessions, and, in place of
// the counts by cause, those of all decisions to roll back and of those by timeout. Version 3 also
// has no sessions, and neither of their numbers. Version 2 also has no incarnation, recovery-paused
// flag, resume, members, removed nodes and tokens. Version 1 also has no audit trail, not even the
// number of its records, and no decided wall clock, tick and index.
//
// A backup holds a snapshot, too: [CopyAsNewIncarnation] makes it the beginning of a restored
// cluster.
//
// # Concurrency
//
// raft calls [FSM.Apply], [FSM.Snapshot] and [FSM.Restore] from one goroutine. Any number of other
// goroutines may use [FSM.View]. Taking a snapshot stops the machine for microseconds; the snapshot
// is written in raft's background goroutine, block by block, while entries are applied. The package
// starts no goroutine.
//
// # Time
//
// The package reads no clock: ticks come from the leader, wall clock times from the node.
//
// # What it does not do
//
// It stores no log (raftfsm/logstore does), stamps no entry, and does not end the process.
package raftfsm
