// Command overhead measures what a user pays for a global transaction: its cost, compared with that
// of its local transactions.
//
// A transaction is one UPDATE in PostgreSQL and one in MariaDB, both private servers with their
// default durability, on rows of the worker's own. Manually means that a program prepares and commits
// both on two connections that it keeps: one after the other, or both at once. No decision is
// recorded then: a program that crashes between the two commits leaves one branch prepared for ever,
// and its outcome is unknown. txmgr does the same work by txn.Run, with a server process, with the
// coordinator embedded in this process, or with three server processes on loopback, all with their
// default settings. Two other ways promise less: two local transactions, of which a crash may leave
// one, and an outbox, whose change of MariaDB comes later; how much later is a line of its own. The
// relay of the outbox polls 20 times a second.
//
// Transactions of a single database are compared with a plain COMMIT; the same with a marker row
// shows what a proof of the commit costs without a coordinator. The coordinator alone begins and commits
// transactions without branches, for one caller and for 64. The list of contenders is in
// contenders.go.
//
// All contenders take turns in one run, on the same disk. Ratios compare figures of the same round
// and number of workers, and those that are compared follow one another. Processor time is that of
// whole processes, from /proc: the application is this program, with the relay and with an embedded
// coordinator. PostgreSQL's and MariaDB's include what recovery asks of them. Log entries and
// synchronisations of the disk are those that the nodes report, and include those of ticks; the
// synchronisations of three nodes are added up. All coordinators run for the whole time, so every
// contender bears the little that the idle ones need.
//
// With -disk-delay, each synchronisation of the disk by any of the processes takes that much longer:
// package slowdisk describes how, and what it does not imitate. The disk's own time is measured at
// the beginning and at the end, with the delay.
//
// With -hung it measures instead how long the rollbacks at PostgreSQL of many transactions that expire at once take, alone
// and while another participant accepts connections and never answers.
//
// It needs Linux, and Debian's packages of both databases.
package main
