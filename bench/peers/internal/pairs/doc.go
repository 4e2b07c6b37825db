// Package pairs makes two writes, each durable before the next is sent, in every way that is
// compared: put and delete of a key in etcd, begin and commit of a transaction of txmgr. Call
// [Etcd], [SDK] or [JSON].
package pairs
