package peer

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// keepAlive detects within half a minute that the other side is gone, when no message of it is
// awaited.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

// listener is the open port, with the address at which other nodes reach it.
type listener struct {
	net.Listener
	advertise string
}

// listen opens the port, or refuses addresses that cannot work or are not safe.
func listen(c Config) (*listener, error) {
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return nil, fmt.Errorf("%w: the address to listen on for peers: %w", txn.ErrInvalid, err)
	}
	addr, err := net.ResolveTCPAddr("tcp", c.Listen)
	if err != nil {
		return nil, fmt.Errorf("%w: the address to listen on for peers: %w", txn.ErrInvalid, err)
	}
	if c.TLS == nil && !c.Insecure && !addr.IP.IsLoopback() {
		return nil, fmt.Errorf("%w: without certificates the port for peers listens on loopback only, and %s is not: any host that reaches it could take over the cluster; give it certificates", txn.ErrInvalid, c.Listen)
	}
	if c.Advertise == "" && (addr.IP == nil || addr.IP.IsUnspecified()) {
		return nil, fmt.Errorf("%w: %s is no address at which other nodes reach this one: say which to advertise", txn.ErrInvalid, c.Listen)
	}
	if c.Advertise != "" {
		if h, port, err := net.SplitHostPort(c.Advertise); err != nil || h == "" || port == "" || port == "0" || len(c.Advertise) > maxText {
			return nil, fmt.Errorf("%w: the address to advertise to peers is %q: want host:port", txn.ErrInvalid, c.Advertise)
		}
	}
	lc := net.ListenConfig{KeepAliveConfig: keepAlive}
	l, err := lc.Listen(context.Background(), "tcp", addr.String())
	if err != nil {
		return nil, fmt.Errorf("the port for peers: %w", err)
	}
	advertise := c.Advertise
	if advertise == "" {
		advertise = net.JoinHostPort(host, strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	}
	return &listener{l, advertise}, nil
}
