package demo

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// Ports are below the range that systems use for outgoing connections: a node that was killed has
// to find its port free when it restarts.
const (
	lowestPort  = 20_000
	highestPort = 30_000
	portTries   = 200
)

// freePorts returns free addresses of loopback.
func freePorts(n int) (addresses []string, err error) {
	var held []net.Listener // so that no port is found twice
	defer func() {
		for _, l := range held {
			err = errors.Join(err, l.Close())
		}
	}()
	var last error
	for range portTries {
		if len(held) == n {
			return addresses, nil
		}
		address := fmt.Sprintf("127.0.0.1:%d", lowestPort+rand.IntN(highestPort-lowestPort))
		l, err := net.Listen("tcp", address)
		if err != nil {
			last = err
			continue
		}
		held, addresses = append(held, l), append(addresses, address)
	}
	return nil, fmt.Errorf("find %d free ports: %w", n, last)
}
