package provision

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/txmgr/txmgr/txn"
)

// The default ports of a node.
const (
	APIPort  = 7460
	RaftPort = 7461
)

// Node is one node of the cluster.
type Node struct {
	Name string
	Host string // as clients and other nodes reach it
	API  int    // port
	Raft int    // port
}

// ParseNode parses NAME=HOST, NAME=HOST:PORT or NAME=HOST:PORT:PORT: the port of the API, and the
// raft port, which defaults to the next one. Errors are [txn.ErrInvalid].
func ParseNode(s string) (Node, error) {
	bad := func(why string) (Node, error) {
		return Node{}, fmt.Errorf("%w: node %q: %s: want for example a=10.0.0.1 or a=10.0.0.1:7460:7461", txn.ErrInvalid, s, why)
	}
	name, where, ok := strings.Cut(s, "=")
	if !ok {
		return bad("no = between the name and the host")
	}
	if name == "" || len(name) > 64 || name == "." || name == ".." || strings.Trim(name, nameLetters) != "" {
		return bad("invalid name, want 1 to 64 letters, digits and -._")
	}
	n := Node{Name: name, API: APIPort}
	if rest, ok := strings.CutPrefix(where, "["); ok { // IPv6
		n.Host, where, ok = strings.Cut(rest, "]")
		if !ok {
			return bad("a bracket is not closed")
		}
	} else {
		n.Host, where, _ = strings.Cut(where, ":")
		if where != "" {
			where = ":" + where
		}
	}
	if n.Host == "" || strings.ContainsAny(n.Host, "/ ,%") {
		return bad("no host")
	}
	if ip := net.ParseIP(n.Host); ip != nil && ip.IsUnspecified() {
		return bad(n.Host + " is every address of a machine; want the one by which other nodes reach it")
	}
	ports := strings.Split(where, ":")[1:]
	if len(ports) > 2 {
		return bad("more than two ports")
	}
	for i, into := range []*int{&n.API, &n.Raft}[:len(ports)] {
		port, err := strconv.ParseUint(ports[i], 10, 16)
		if err != nil || port == 0 {
			return bad("port " + ports[i] + " is invalid")
		}
		*into = int(port)
	}
	if n.Raft == 0 {
		n.Raft = n.API + 1
	}
	if n.Raft > 65535 || n.Raft == n.API {
		return bad("the two ports are the same or too high")
	}
	return n, nil
}

const nameLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._"

// APIAddress is the address on which the node's server listens.
func (n Node) APIAddress() string { return net.JoinHostPort(n.Host, strconv.Itoa(n.API)) }

// RaftAddress is the address on which the node listens for other nodes.
func (n Node) RaftAddress() string { return net.JoinHostPort(n.Host, strconv.Itoa(n.Raft)) }

// URL is the URL for clients.
func (n Node) URL() string { return "https://" + n.APIAddress() }
