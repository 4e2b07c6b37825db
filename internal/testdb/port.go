package testdb

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are below the ephemeral range: no outgoing connection takes one while its server is down.
const (
	firstPort = 20000
	lastPort  = 31999
	portTries = 100
)

// freePort returns a free port of 127.0.0.1. Another program may take it before the server does.
func freePort() (int, error) {
	var last error
	for range portTries {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		l, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
		if err != nil {
			last = err
			continue
		}
		return port, l.Close()
	}
	return 0, fmt.Errorf("no free port on %s after %d tries: %w", loopback, portTries, last)
}

const loopback = "127.0.0.1"
