// Command deadlines measures the lag of three nodes with many equal deadlines, and that of leases
// of three nodes of etcd: the time from the beginning of the tick until the last transaction is
// known, durably, to be rolled back; and from the end of the last lease until its last key is
// deleted. It also measures the size of the log entry that ends a group.
//
// The nodes of txmgr are measured within the process of the leader, those of etcd by a client that
// watches the keys. All are on one machine.
package main
