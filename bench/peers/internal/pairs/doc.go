// Package pairs makes two writes, each durable before the next is sent, in every way that is compared: put and delete of a
// key of etcd, begin and commit of a transaction of txmgr.
package pairs
