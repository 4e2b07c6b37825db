package faultproxy

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// waitTimeout bounds waits for what happens at once, on a very busy machine.
const waitTimeout = 30 * time.Second

// TestRelay: what hangs arrives late, and what is disconnected does not arrive.
func TestRelay(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() {
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); _ = c.Close() }()
		}
	}()
	r, err := New("127.0.0.1:0", server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c, err := net.Dial("tcp", r.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	echo := func(text string, within time.Duration) error {
		got := make([]byte, len(text))
		_ = c.SetDeadline(time.Now().Add(within))
		if _, err := io.WriteString(c, text); err != nil {
			return err
		}
		_, err := io.ReadFull(c, got)
		if err == nil && string(got) != text {
			t.Errorf("%q came back as %q", text, got)
		}
		return err
	}
	if err := echo("one", waitTimeout); err != nil {
		t.Errorf("passing on: %v", err)
	}
	release := r.Hang()
	var late net.Error
	if err := echo("two", 100*time.Millisecond); !errors.As(err, &late) || !late.Timeout() {
		t.Errorf("hanging: %v", err)
	}
	release()
	got := make([]byte, 3)
	_ = c.SetDeadline(time.Now().Add(waitTimeout))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "two" {
		t.Errorf("released: %q, %v", got, err)
	}
	if n := r.Disconnect(); n != 2 {
		t.Errorf("cut %d ends, want 2", n)
	}
	if err := echo("six", waitTimeout); err == nil {
		t.Error("a connection that was cut answers")
	}
}

// TestRedirect: new connections go to the other address.
func TestRedirect(t *testing.T) {
	greeter := func(text string) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(c, text)
				_ = c.Close()
			}
		}()
		return l.Addr().String()
	}
	r, err := New("127.0.0.1:0", greeter("here"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, want := range []string{"here", "there"} {
		c, err := net.Dial("tcp", r.Address())
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(waitTimeout))
		if got, err := io.ReadAll(c); string(got) != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
		_ = c.Close()
		r.Redirect(greeter("there"))
	}
}
