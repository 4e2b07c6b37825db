package web

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/txmgr/txmgr/participant"
)

func TestAddresses(t *testing.T) {
	for _, c := range []struct {
		allow, host, resolved string
		want                  string // part of the error; none: allowed
	}{
		// Without allow: the registered host, unless its address is reserved.
		{"", "mail.example", "203.0.113.5:80", ""},
		{"", "mail.example", "10.1.2.3:80", ""},
		{"", "mail.example", "[2001:db8::1]:80", ""},
		{"", "mail.example", "127.0.0.1:80", "this machine"},
		{"", "mail.example", "[::1]:80", "this machine"},
		{"", "mail.example", "[::ffff:127.0.0.1]:80", "this machine"},
		{"", "mail.example", "[64:ff9b::7f00:1]:80", "this machine"},
		{"", "localhost.example", "127.0.0.1:80", "this machine"},
		{"", "localhost", "127.0.0.1:80", ""},
		{"", "127.0.0.1", "127.0.0.1:80", ""},
		{"", "::1", "[::1]:80", ""},
		{"", "localhost", "169.254.169.254:80", "link-local"},
		{"", "169.254.169.254", "169.254.169.254:80", "link-local"},
		{"", "mail.example", "169.254.169.254:80", "link-local"},
		{"", "mail.example", "[::ffff:169.254.169.254]:80", "link-local"},
		{"", "mail.example", "[64:ff9b::a9fe:a9fe]:80", "link-local"},
		{"", "mail.example", "[fe80::1%eth0]:80", "link-local"},
		{"", "mail.example", "[fd00:ec2::254]:80", "metadata"},
		{"", "mail.example", "100.100.100.200:80", "metadata"},
		{"", "mail.example", "192.0.0.192:80", "metadata"},
		{"", "mail.example", "168.63.129.16:80", "metadata"},
		{"", "0.0.0.0", "0.0.0.0:80", "by no address"},
		{"", "mail.example", "0.1.2.3:80", "by no address"},
		{"", "mail.example", "[::]:80", "by no address"},
		{"", "mail.example", "224.0.0.1:80", "not of one machine"},
		{"", "mail.example", "255.255.255.255:80", "not of one machine"},
		{"", "mail.example", "[ff02::1]:80", "not of one machine"},
		// Names.
		{"mail.example", "mail.example", "10.1.2.3:80", ""},
		{"mail.example", "mail.example", "169.254.169.254:80", "link-local"},
		{"mail.example", "mail.example", "127.0.0.1:80", "this machine"},
		{"localhost", "localhost", "127.0.0.1:80", ""},
		{"mail.example:80", "mail.example", "10.1.2.3:80", ""},
		{"mail.example:81,10.9.9.9", "mail.example", "10.1.2.3:80", "not in the setting allow"},
		// Addresses and networks.
		{"10.0.0.0/8", "mail.example", "10.1.2.3:80", ""},
		{"10.0.0.0/8", "mail.example", "11.1.2.3:80", "not in the setting allow"},
		{"10.1.2.3", "mail.example", "10.1.2.3:8080", ""},
		{"10.1.2.3:8080", "mail.example", "10.1.2.3:8080", ""},
		{"10.1.2.3:8080", "mail.example", "10.1.2.3:80", "not in the setting allow"},
		{"[2001:db8::1]:80", "mail.example", "[2001:db8::1]:80", ""},
		{"2001:db8::/32", "mail.example", "[2001:db8:1::1]:80", ""},
		{"::ffff:10.1.2.3", "mail.example", "10.1.2.3:80", ""},
		{"127.0.0.0/8", "mail.example", "127.0.0.1:80", ""},
		{"169.254.169.254", "mail.example", "169.254.169.254:80", ""},
		{"0.0.0.0/0", "mail.example", "[2001:db8::1]:80", "not in the setting allow"},
		{"MAIL.example, 10.0.0.0/8", "mail.example", "203.0.113.1:80", ""},
	} {
		var a allowList
		if c.allow != "" {
			var err error
			a, err = parseAllow(c.allow)
			check(t, err)
		}
		_, port, err := net.SplitHostPort(c.resolved)
		check(t, err)
		err = a.checkAddr(c.host, port, c.resolved)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("allow %q, host %s at %s: %v, want %q", c.allow, c.host, c.resolved, err, c.want)
		}
	}
}

func TestAllowIsRefused(t *testing.T) {
	for _, text := range []string{
		"", ",", "a,,b", "a b", "http://a", "a:0", "a:65536", "a:x", "a:", ":80", "10.0.0.0/33", "10.0.0/8", "::ffff:10.0.0.0/104", "*.example", "a/b",
		"fe80::1%eth0", strings.Repeat("a,", maxAllow) + "a",
	} {
		if a, err := parseAllow(text); err == nil {
			t.Errorf("%q: %+v", text, a)
		}
	}
}

// TestNameIsJudgedAtEveryDial: a name that was harmless a moment ago resolves to another address
// now. The connection is not made, although the name is allowed.
func TestNameIsJudgedAtEveryDial(t *testing.T) {
	var stolen atomic.Int64
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	_, port, err := net.SplitHostPort(inner.Addr().String())
	check(t, err)
	victim := &httptest.Server{Listener: inner, Config: &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { stolen.Add(1) })}}
	victim.Start()
	defer victim.Close()
	outer, err := net.Listen("tcp", net.JoinHostPort("127.0.0.2", port))
	check(t, err)
	service := &httptest.Server{Listener: outer, Config: &http.Server{Handler: http.HandlerFunc(consent)}}
	service.Config.SetKeepAlivesEnabled(false)
	service.Start()
	defer service.Close()

	answer := resolveAll(t, "127.0.0.2")
	r := opened(t, map[string]string{"url": "http://mail.test:" + port, "allow": "127.0.0.2/32", "list": "/prepared"})
	got, err := r.Commit(t.Context(), newBranch())
	wantOutcome(t, "commit", got, err, participant.Committed, "", false)
	for _, elsewhere := range []string{"127.0.0.1", "169.254.169.254", "10.255.255.1"} {
		answer(elsewhere)
		_, err = r.Commit(t.Context(), newBranch())
		wantError(t, err, "not in the setting allow", true)
		if _, err := r.Prepared(t.Context(), r.prefix); err == nil {
			t.Error("a list was read")
		}
	}
	if n := stolen.Load(); n != 0 {
		t.Errorf("%d requests reached the wrong server", n)
	}

	// By default, reserved addresses are refused, whatever the name.
	r = opened(t, map[string]string{"url": "http://mail.test:" + port})
	for elsewhere, why := range map[string]string{"127.0.0.1": "this machine", "169.254.169.254": "link-local"} {
		answer(elsewhere)
		_, err = r.Commit(t.Context(), newBranch())
		wantError(t, err, why, true)
	}
	if n := stolen.Load(); n != 0 {
		t.Errorf("%d requests reached the wrong server", n)
	}
}

// TestNoProxyIsAsked: a proxy would dial addresses that are not allowed.
func TestNoProxyIsAsked(t *testing.T) {
	var asked atomic.Int64
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer proxy.Close()
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("http_proxy", proxy.URL)
	resolveAll(t, "169.254.169.254")
	_, err := opened(t, map[string]string{"url": "http://mail.test"}).Commit(t.Context(), newBranch())
	wantError(t, err, "link-local", true)
	if n := asked.Load(); n != 0 {
		t.Error("a proxy was asked")
	}
}

// resolveAll resolves every name to one address, which can be changed, until the end of the test:
// by a DNS server on loopback.
func resolveAll(t *testing.T, first string) (change func(addr string)) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	check(t, err)
	var now atomic.Pointer[netip.Addr]
	change = func(text string) {
		addr := netip.MustParseAddr(text)
		now.Store(&addr)
	}
	change(first)
	served := make(chan error, 1)
	go func() {
		query := make([]byte, 512)
		for {
			n, from, err := conn.ReadFrom(query)
			if err != nil {
				served <- err
				return
			}
			if _, err := conn.WriteTo(nameAnswer(query[:n], *now.Load()), from); err != nil {
				served <- err
				return
			}
		}
	}()
	before := net.DefaultResolver
	var d net.Dialer
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return d.DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
	t.Cleanup(func() {
		net.DefaultResolver = before
		check(t, conn.Close())
		if err := <-served; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	return change
}

// nameAnswer answers a question for A with the address, and any other with no record (RFC 1035,
// section 4).
func nameAnswer(query []byte, addr netip.Addr) []byte {
	end := 12
	for query[end] != 0 {
		end += int(query[end]) + 1
	}
	end += 5 // the end of the name, type and class
	answer := append([]byte(nil), query[:end]...)
	answer[2], answer[3] = 0x81, 0x80
	binary.BigEndian.PutUint16(answer[6:], 0)
	binary.BigEndian.PutUint16(answer[8:], 0)
	binary.BigEndian.PutUint16(answer[10:], 0)
	if binary.BigEndian.Uint16(query[end-4:]) != 1 {
		return answer
	}
	binary.BigEndian.PutUint16(answer[6:], 1)
	answer = append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
	b := addr.As4()
	return append(answer, b[:]...)
}
