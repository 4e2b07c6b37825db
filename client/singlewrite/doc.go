// Package singlewrite has transports that send a message by a single write, which is one packet and
// one system call on either side, where net/http and the connect library would need two. Use [Unary]
// for requests of one message, and [Streams] for streams of messages.
package singlewrite
