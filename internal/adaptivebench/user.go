package adaptivebench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

const (
	// answerTimeout is how long a user waits for an answer: far longer than any pool takes.
	answerTimeout = 2 * time.Minute
	// maxAnswer bounds what a user reads.
	maxAnswer = 4096
)

// client is a user of an HTTP server, with a connection of its own that is kept. It
// writes a request that never changes and reads the answer: a whole HTTP client would
// take more of the processors from the server than the server itself uses.
type client struct {
	conn    net.Conn
	in      *bufio.Reader
	text    []byte
	unwatch func() bool // ends what closes the connection when the context ends
}

// dial connects a user to a server.
func dial(ctx context.Context, address string) (user, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connect a user: %w", err)
	}
	return &client{
		conn: conn, in: bufio.NewReader(conn),
		text:    []byte("GET / HTTP/1.1\r\nHost: " + address + "\r\n\r\n"),
		unwatch: context.AfterFunc(ctx, func() { _ = conn.Close() }), // ends a read
	}, nil
}

func (c *client) close() {
	c.unwatch()
	_ = c.conn.Close() // there is nothing to lose
}

func (c *client) request(context.Context) error {
	if err := c.conn.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return fmt.Errorf("send a request: %w", err)
	}
	if _, err := c.conn.Write(c.text); err != nil {
		return fmt.Errorf("send a request: %w", err)
	}
	answer, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return fmt.Errorf("read an answer: %w", err)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	_ = answer.Body.Close() // it has been read
	switch {
	case err != nil:
		return fmt.Errorf("read an answer: %w", err)
	case answer.StatusCode != http.StatusOK:
		return fmt.Errorf("the server answered %s: %s", answer.Status, strings.TrimSpace(string(body)))
	case len(body) == 0:
		return fmt.Errorf("the server answered nothing")
	}
	return nil
}
