package serve

import (
	"net"
	"os"
	"strconv"

	"github.com/txmgr/txmgr/node"
	"github.com/txmgr/txmgr/txn"
)

// The sources of values that are not configured.
const (
	fromDefault   = "default"
	fromDirectory = "default of a new data directory"
	fromNothing   = "not set"
)

// effectiveDefault is the effective value of a flag that is not configured, and the source of that
// value; value is the flag's own default.
func (o *serverOptions) effectiveDefault(flag, value string) (effective, from string) {
	switch flag {
	case "interval":
		return node.DefaultInterval.String(), fromDirectory
	case "retention":
		return node.DefaultRetention.String(), fromDirectory
	case "default-timeout":
		return txn.DefaultTimeout.String(), fromDefault
	case "max-timeout":
		return node.DefaultMaxTimeout.String(), fromDefault
	case "sweep-interval":
		return node.DefaultSweepEvery.String(), fromDefault
	case "snapshot-bytes":
		return strconv.Itoa(node.DefaultSnapshotBytes), fromDefault
	case "log-format":
		return "text", fromDefault
	case "tls-ca":
		if o.tlsClientCA != "" {
			return o.tlsClientCA, "tls_client_ca"
		}
	case "raft-listen", "advertise", "api-advertise", "name":
		return o.clusterDefault(flag)
	case "bootstrap-expect":
		value = ""
	}
	if value == "" {
		return "", fromNothing
	}
	return value, fromDefault
}

// clusterDefault is effectiveDefault for the settings of a node in a cluster: its addresses for the
// other nodes, and its name.
func (o *serverOptions) clusterDefault(flag string) (effective, from string) {
	if o.singleNode() {
		return "", fromNothing
	}
	listen := o.raftListen
	if listen == "" {
		listen = defaultRaftListen
	}
	switch flag {
	case "raft-listen":
		return listen, fromDefault
	case "advertise":
		return listen, "raft_listen"
	case "name":
		host, err := os.Hostname()
		if err != nil {
			return "", fromNothing
		}
		return host, "the name of the host"
	}
	api, err := net.ResolveTCPAddr("tcp", o.listen)
	if err != nil {
		return "", fromNothing
	}
	c, err := o.cluster(api, o.scheme(), o.insecure)
	if err != nil {
		return "", fromNothing // config validate reports the error
	}
	return c.API, "listen"
}
