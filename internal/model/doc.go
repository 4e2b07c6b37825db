// Package model is the commit protocol as models in Promela, which Spin checks exhaustively.
//
// It has no code: its test runs every search of the table in searches_test.go and compares the
// result with what is expected of it. Most searches have to find nothing; the others contain a known
// mistake, or ask for a good end, and have to find exactly that.
//
//	make model                                        # all searches
//	go test ./internal/model -short                   # those that take seconds
//	go test ./internal/model -run 'Searches/twophase' # those of one model
//
// # Models
//
// A model has one transaction with two branches, and explores every order of the steps of an
// application, its sessions, the network between it and the coordinator, the log, the deadline, the
// retention horizon, and recovery:
//
//   - twophase.pml: two-phase commit decided by the log, as the code does it. Variants: branch 2 at a
//     participant with a marker row, at one without, or at a service that the coordinator prepares; a
//     cluster that is restored from a backup; and the order with a txn.Namer, WORK_FIRST: the begin
//     and the enlistments in one call beside the work, awaited before PREPARE.
//   - delegated.pml: one-phase commit as the code does it, also with a second application.
//   - lastparticipant.pml: one of several participants decides last, by its own one-phase
//     commit, as the code does it; and planned: the same with a begin that is not awaited (ANNOUNCED).
//   - announced.pml: a single branch that is appointed in a begin that is not awaited, and
//     decides by its one-phase commit; with a second branch, or application, it is revoked first.
//   - moved.pml: the begin appoints branch 1, and the enlistment of branch 2 moves the appointment to that one,
//     before anything prepares, as the code does it; with read-only votes, and with a look at the row of the branch that decides.
//   - sharedid.pml: the appointment of a branch, and a second application, which may enlist when it is revoked.
//
// docs/protocol.md maps the steps of the models to functions of the code.
//
// # Properties
//
// The text of a violated assertion has the name of the property; common.pml defines them.
//
//   - not_atomic: one branch is committed, the other one rolled back.
//   - told_otherwise: a branch has ended otherwise than the client has told its user.
//   - decided_twice: the log decides otherwise than before, or than the client was told.
//   - begun_twice: an id that was decided and forgotten is begun again.
//   - commit_swept: a sweep rolls a branch back, as unknown, of which the commit was decided.
//   - false_heuristic: recovery takes a branch that nothing interfered with to have ended otherwise
//     than decided.
//   - unnoticed: a transaction is finished without a heuristic outcome, although a branch of it ended
//     otherwise than decided. Without a restored backup this is implied by the others; with one it holds
//     because of the mark.
//   - nothing_stays_prepared, nothing_stays_locked: under weak fairness, as temporal formulas.
//
// # What is modelled
//
// The application may stop at every step, crash, hang with its sessions open, or be in doubt. A call
// to the coordinator, once sent, is delivered never, once or often, in any order, after anything;
// answers get lost. A session has one request in flight, which is executed at any later time, also
// after the application died, but not twice. Sessions and participants fail at any time: active work is
// lost, prepared work stays. The deadline comes at any moment after the begin, and an outcome is
// forgotten at any moment after the horizon has passed the mark of the id, so that all timeouts and
// retentions are covered, also absurd ones. Recovery asks the log, calls, and reports in separate
// steps; each report may get lost, which is also the crash of a leader; a worker of a deposed leader does
// what it was about to do at any later time. So do a backup, its restore, the paused recovery and
// the calls of the old cluster that are still on their way.
//
// # What is not modelled
//
// Raft, which is a log that is linearizable and durable at once; faults of disks; interference between
// transactions; more than two branches; real time (a tick is only an order, and the rules of a sweep
// that compare clocks may say anything, except for liveness); sessions of clients, extensions, quotas
// and breakers; connections that are replaced; branches ended by an operator or by application SQL; wrong
// answers of a server, such as a success of XA COMMIT that is none; the clocks' part of the rules for
// unknown branches, beyond that each may be right or wrong. Participant 1 has no session reference;
// the transaction number with which PostgreSQL proves an end is not modelled. A prune by a deposed
// leader looks at the calls under way of the leader of that time; see LATE_LOOKUP in searches_test.go
// for what happens otherwise. For liveness the begin carries the enlistments, reports are not lost for
// ever, and in twophase.pml a deposed worker is only beside a service.
//
// # How far to trust it
//
// Every search is complete: no hashing that loses states, and a search that reaches its limit of depth
// or memory fails. But the models are written by people, from the code and its documentation. What the
// code does otherwise is not found here: internal/sim and internal/cluster run the code. A change of
// txn/machine, recovery, of what txn sends and awaits, or of a participant's rollback that changes the order of steps
// has to be made in the model, too.
package model
