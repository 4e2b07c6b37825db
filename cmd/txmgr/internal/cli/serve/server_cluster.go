package serve

import (
	"net"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/node"
)

// defaultRaftListen is the default address on which a node listens for other nodes.
const defaultRaftListen = "127.0.0.1:7461"

// clusterOptions are the settings of a server in a cluster of several nodes.
type clusterOptions struct {
	raftListen, advertise, apiAdvertise, name string
	bootstrapExpect                           int
	join                                      []string
	peerCert, peerKey, peerCA                 string
}

func (o *clusterOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.raftListen, "raft-listen", "", "address to listen on for the other nodes (default "+defaultRaftListen+" in a cluster of several nodes)")
	f.StringVar(&o.advertise, "advertise", "", "address at which the other nodes reach this one (default: --raft-listen)")
	f.StringVar(&o.apiAdvertise, "api-advertise", "", "URL at which clients and nodes reach this server (default: --listen)")
	f.StringVar(&o.name, "name", "", "name of this node, for display (default: the name of the host)")
	f.IntVar(&o.bootstrapExpect, "bootstrap-expect", 0, "number of nodes that form a new cluster")
	f.StringSliceVar(&o.join, "join", nil, "addresses at which other nodes listen for this one, separated by commas")
	f.StringVar(&o.peerCert, "peer-cert", "", "PEM file with the certificate of this node towards other nodes")
	f.StringVar(&o.peerKey, "peer-key", "", "PEM file with the key of that certificate")
	f.StringVar(&o.peerCA, "peer-ca", "", "PEM file with the certificates that other nodes are verified against")
}

// singleNode reports whether no setting refers to other nodes.
func (o *clusterOptions) singleNode() bool {
	return o.raftListen == "" && len(o.join) == 0 && o.bootstrapExpect <= 1
}

// cluster returns the cluster settings of the node; nil for a single node. api is the address on
// which the server listens, which other nodes need in a form that they can reach.
func (o *clusterOptions) cluster(api net.Addr, scheme string, insecure bool) (*node.Cluster, error) {
	if o.singleNode() {
		if name := o.unusedFlag(); name != "" {
			return nil, output.Usage("a cluster of several nodes needs --raft-listen, --join or --bootstrap-expect", "--%s has no effect on a single node", name)
		}
		return nil, nil
	}
	if o.bootstrapExpect < 0 {
		return nil, output.Usage("give the number of nodes, for example 3", "--bootstrap-expect is %d", o.bootstrapExpect)
	}
	if o.bootstrapExpect > 1 && len(o.join) == 0 {
		return nil, output.Usage("--join with the addresses of all of them", "%d nodes are expected, and no addresses are given", o.bootstrapExpect)
	}
	c := &node.Cluster{
		Listen: o.raftListen, Advertise: o.advertise, API: o.apiAdvertise, Name: o.name, Expect: o.bootstrapExpect, Join: o.join,
		CertFile: o.peerCert, KeyFile: o.peerKey, CAFile: o.peerCA, Insecure: insecure,
	}
	if c.Listen == "" {
		c.Listen = defaultRaftListen
	}
	for _, address := range append([]string{c.Listen}, c.Join...) {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return nil, output.Usage("write it like 10.0.0.1:7461", "--raft-listen and --join: %v", err)
		}
	}
	if c.API == "" {
		host, err := o.advertisedAPI(api, c)
		if err != nil {
			return nil, err
		}
		c.API = scheme + host
	}
	c.API = strings.TrimRight(c.API, "/")
	if _, err := cli.CheckAddress(c.API, false); err != nil || strings.Contains(c.API, ",") {
		return nil, output.Usage("write it like https://10.0.0.1:7460", "--api-advertise %q is not the URL of a server", c.API)
	}
	return c, nil
}

// unusedFlag names a flag that is given although the server is a single node.
func (o *clusterOptions) unusedFlag() string {
	for _, f := range []struct{ name, value string }{
		{"advertise", o.advertise}, {"api-advertise", o.apiAdvertise}, {"peer-cert", o.peerCert}, {"peer-key", o.peerKey}, {"peer-ca", o.peerCA},
	} {
		if f.value != "" {
			return f.name
		}
	}
	return ""
}

// advertisedAPI is the host and port at which other nodes reach the server. If the server listens
// on every address of the machine, the host is that of the node's raft address.
func (o *clusterOptions) advertisedAPI(api net.Addr, c *node.Cluster) (string, error) {
	tcp, ok := api.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return api.String(), nil
	}
	for _, a := range []string{c.Advertise, c.Listen} {
		host, _, err := net.SplitHostPort(a)
		if ip := net.ParseIP(host); err == nil && host != "" && (ip == nil || !ip.IsUnspecified()) {
			return net.JoinHostPort(host, strconv.Itoa(tcp.Port)), nil
		}
	}
	return "", output.Usage("--advertise 10.0.0.1:7461, or --api-advertise https://10.0.0.1:7460", "%s is every address of this machine, and the one that other nodes reach is not given", api)
}
