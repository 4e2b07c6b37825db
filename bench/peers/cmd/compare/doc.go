// Command compare measures one node of txmgr and one node of etcd, each a process of its own with
// its log on the same disk, in alternating rounds, and prints medians, ratios and whether the goals
// are met.
//
// A pair is two writes, each durable before the next is sent: begin and commit of a transaction without branches, or put
// and delete of a key. Either first write carries the same number of bytes. All callers are in this process, on the same
// processors as the servers.
//
// It needs Linux, and builds both servers: etcd from the version in go.mod, txmgr from the checkout.
package main
