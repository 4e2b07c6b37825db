// Command deadlines measures how late three nodes are with many deadlines that are the same, beside leases of three nodes of
// etcd: the time from the beginning of the tick until the last transaction is known, durably, to be rolled back; and from the
// end of the last lease until the last key is gone that hung on one. It also weighs the log entry that ends a group.
//
// The nodes of txmgr are measured from within the process that leads, those of etcd by a client that watches the keys. All
// are on one machine.
package main
