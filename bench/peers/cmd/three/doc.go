// Command three measures three nodes of txmgr and three of etcd, all on one machine, each a process
// of its own with its log on the same disk, in alternating rounds; and the coordinator without its
// API, with callers in the process of the leader of three more nodes. It prints medians, ratios and
// whether the goals are met.
//
// A pair is two writes, each durable at two nodes before the next is sent: begin and commit of a
// transaction without branches, or put and delete of a key. Either first write carries the same
// number of bytes. All callers run on the same processors as the servers. Callers of etcd and of
// JSON over HTTP are connected to the leader alone; those of the SDK have the addresses of all
// three nodes, and find the leader.
//
// It needs Linux, and builds both servers: etcd from the version in go.mod, txmgr from the checkout.
package main
