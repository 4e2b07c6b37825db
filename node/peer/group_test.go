package peer

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/txn"
)

// ofGroup7 is the hello of a node that serves several groups, byte by byte.
const ofGroup7 = "TXMP\x01\x06\x00\x24" + `{"id":"n_a","cluster":"c","group":7}`

// The handshakes of nodes that have one group are what they were, byte by byte: no side says anything
// of a group.
func TestHandshakeWithoutAGroup(t *testing.T) {
	b := start(t, "n_b")
	b.Transport()
	for _, hello := range []string{
		"TXMP\x01\x01\x00\x1a" + `{"id":"n_a","cluster":"c"}`,
		"TXMP\x01\x02\x00\x1a" + `{"id":"n_a","cluster":"c"}`,
	} {
		c, want := dialRaw(t, b.Server, hello), "TXMP\x01\x03\x00\x23"+`{"self":{"id":"n_b","cluster":"c"}}`
		got := make([]byte, len(want))
		if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
			t.Errorf("%q: %q, %v; want %q", hello, got, err, want)
		}
		c.Close()
	}
}

// The refusal, byte by byte: a node that serves several groups has to understand it.
func TestRefusalOfAnotherGroup(t *testing.T) {
	b := start(t, "n_b")
	b.Transport()
	c := dialRaw(t, b.Server, ofGroup7)
	text := "permission denied: unknown group: group 7 is not served here: node n_b has only group 0"
	want := "TXMP\x01\x03\x00\xaf" + `{"self":{"id":"n_b","cluster":"c"},"fault":{"code":"DENIED","reason":"group","text":"` + text + `"}}`
	var got strings.Builder
	reply, err := readHelloReply(io.TeeReader(c, &got))
	if err != nil || got.String() != want {
		t.Fatalf("%q, %v\nwant %q", got.String(), err, want)
	}
	if refused := reply.Fault.err(); !errors.Is(refused, errNoGroup) || !errors.Is(refused, txn.ErrDenied) || refused.Error() != text {
		t.Errorf("%v", refused)
	}
	if rest, err := io.ReadAll(c); len(rest) != 0 || err != nil {
		t.Errorf("%q follows, %v", rest, err)
	}
	c.Close()
	waittest.Until(t, "a warning", func() bool { return b.log.count("group 7 is not served here") == 1 })
}

// Who is not admitted at all is not told which groups there are.
func TestUnadmittedNodeOfAnotherGroup(t *testing.T) {
	b := start(t, "n_b")
	b.Transport()
	b.remove("n_a")
	for hello, want := range map[string]error{
		ofGroup7: ErrRemoved,
		strings.Replace(ofGroup7, `"c"`, `"d"`, 1): ErrClusterMismatch,
	} {
		reply, err := readHelloReply(dialRaw(t, b.Server, hello))
		if refused := reply.Fault.err(); err != nil || !errors.Is(refused, want) || errors.Is(refused, errNoGroup) {
			t.Errorf("%q: %v, %v; want %v", hello, refused, err, want)
		}
	}
}

// A hello of type 6 names a group that has the type.
func TestHelloOfAGroup(t *testing.T) {
	for body, group := range map[string]uint64{
		`{"id":"n_a","group":1}`: 1, `{"id":"n_a","group":32767}`: txn.MaxGroup,
		`{"id":"n_a","group":2,"of":"a later release"}`: 2,
		`{"id":"n_a","group":0}`:                        0, `{"id":"n_a"}`: 0, `{"id":"n_a","group":32768}`: 0, `{"id":"n_a","group":-1}`: 0,
		`{"id":"n_a","group":"7"}`: 0, `{"id":"n_a","group":18446744073709551616}`: 0, `{"group":7}`: 0,
	} {
		h, err := readHello(strings.NewReader("TXMP\x01\x06\x00" + string(rune(len(body))) + body))
		if group == 0 && err == nil || group != 0 && (err != nil || h.kind != frameGroup || h.group != group || h.from.ID != "n_a") {
			t.Errorf("%s: %+v, %v; want group %d", body, h, err, group)
		}
	}
	// In the other hellos it is an unknown field.
	for _, kind := range []string{"\x01", "\x02"} {
		if h, err := readHello(strings.NewReader("TXMP\x01" + kind + "\x00\x16" + `{"id":"n_a","group":7}`)); err != nil || h.group != 0 {
			t.Errorf("type %q: %+v, %v", kind, h, err)
		}
	}
}

// The messages of another group do not reach raft, even if their sender does not wait for an answer.
func TestMessagesOfAnotherGroup(t *testing.T) {
	for name, tt := range map[string]struct {
		hello   string
		reaches bool
	}{
		"group 0":         {"TXMP\x01\x01\x00\x1a" + `{"id":"n_a","cluster":"c"}`, true},
		"group 7":         {ofGroup7, false},
		"the next type":   {strings.Replace(ofGroup7, "\x01\x06", "\x01\x07", 1), false},
		"group 0 as such": {strings.Replace(ofGroup7, `:7`, `:0`, 1), false},
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t, "n_b")
			var reached atomic.Int32
			requests := b.Transport().Consumer()
			go func() {
				for {
					select {
					case r := <-requests:
						reached.Add(1)
						r.Respond(&raft.RequestVoteResponse{}, nil)
					case <-b.ctx.Done():
						return
					}
				}
			}()
			streams := &rashStreams{hello: tt.hello, closed: make(chan struct{})}
			sender := raft.NewNetworkTransport(streams, 1, testTimeout, io.Discard)
			defer sender.Close()
			// What comes back is no response of raft's: it is the reply to the hello, or nothing.
			err := sender.RequestVote("n_b", raft.ServerAddress(b.Addr()), &raft.RequestVoteRequest{Term: 5}, &raft.RequestVoteResponse{})
			if err == nil {
				t.Error("raft responded")
			}
			if tt.reaches {
				waittest.Until(t, "the message at raft", func() bool { return reached.Load() == 1 })
				return
			}
			waittest.Until(t, "a warning", func() bool { return b.log.count("level=WARN") == 1 })
			if n := reached.Load(); n != 0 {
				t.Errorf("%d messages reached raft", n)
			}
		})
	}
}

// rashStreams are streams to a node that send a hello and go on at once.
type rashStreams struct {
	hello  string
	closed chan struct{}
}

func (r *rashStreams) Dial(target raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	c, err := net.DialTimeout("tcp", string(target), timeout)
	if err == nil {
		_, err = io.WriteString(c, r.hello)
	}
	return c, err
}

func (r *rashStreams) Accept() (net.Conn, error) {
	<-r.closed
	return nil, net.ErrClosed
}

func (r *rashStreams) Close() error {
	close(r.closed)
	return nil
}

func (r *rashStreams) Addr() net.Addr { return address("") }
