// Command overhead compares the cost of a global transaction with that of the same local prepares
// and commits made manually.
//
// A transaction is one UPDATE in PostgreSQL and one in MariaDB, both private servers with their
// default durability, on rows of the worker's own. Manually means that a program prepares and
// commits both on two connections that it keeps: one after the other, or both at once. No decision
// is recorded then: a program that crashes between the two commits leaves one branch prepared for
// ever, and its outcome is unknown. txmgr does the same work by txn.Run, over the network with a
// server process, or with the coordinator embedded in this process. Transactions of a single
// database are measured, too, and compared with a plain COMMIT.
//
// All contenders take turns in one run, on the same disk; ratios compare figures of the same round
// and number of workers.
//
// With -hung it measures instead how long the rollbacks at PostgreSQL of many transactions that expire at once take, alone
// and while another participant accepts connections and never answers.
//
// It needs Linux, and Debian's packages of both databases.
package main
