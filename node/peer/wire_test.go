package peer

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/txn"
)

// The bytes of a handshake, which nodes of all releases have to understand.
func TestHandshakeBytes(t *testing.T) {
	i := Identity{ID: "n_a", Name: "x", Cluster: "c", Incarnation: 2}.handshakeIdentity()
	var b bytes.Buffer
	if err := writeFrame(&b, frameRaft, i); err != nil {
		t.Fatal(err)
	}
	want := "TXMP\x01\x01\x00\x2a" + `{"id":"n_a","cluster":"c","incarnation":2}`
	if b.String() != want {
		t.Errorf("%q\nwant %q", b.String(), want)
	}
	b.WriteString("raft's own")
	h, err := readHello(&b)
	if diff := cmp.Diff(i, h.from); err != nil || diff != "" || h.kind != frameRaft {
		t.Errorf("%v %s", err, diff)
	}
	if b.String() != "raft's own" {
		t.Errorf("the handshake took more than its own: left %q", b.String())
	}
	newer := "TXMP\x01\x02\x00\x28" + `{"id":"n_a","of":"a later release"}` + "     "
	if h, err := readHello(strings.NewReader(newer)); err != nil || h.from.ID != "n_a" {
		t.Errorf("a field of a later release: %v", err)
	}
}

func FuzzHandshake(f *testing.F) {
	for _, v := range []struct {
		kind byte
		body any
	}{
		{frameRaft, Identity{ID: "n_a", Cluster: "c", Incarnation: 1}},
		{frameCall, Identity{ID: "n_a"}},
		{frameGroup, groupHello{Identity{ID: "n_a", Cluster: "c"}, 7}},
		{frameHelloReply, helloReply{Self: Identity{ID: "n_a"}, Fault: faultOf(ErrRemoved)}},
	} {
		var b bytes.Buffer
		if err := writeFrame(&b, v.kind, v.body); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if h, err := readHello(bytes.NewReader(data)); err == nil {
			if h.from.check() != nil || (h.kind != frameRaft && h.kind != frameCall || h.group != 0) && (h.kind != frameGroup || h.group == 0 || h.group > txn.MaxGroup) {
				t.Errorf("accepted: %+v", h)
			}
			roundTrip(t, h.kind, helloBody(h), func(b *bytes.Buffer) (any, error) { h, err := readHello(b); return helloBody(h), err })
		}
		if w, err := readHelloReply(bytes.NewReader(data)); err == nil {
			_ = w.Fault.err()
			roundTrip(t, frameHelloReply, w, func(b *bytes.Buffer) (any, error) { return readHelloReply(b) })
		}
	})
}

// helloBody is what the frame of a hello carries.
func helloBody(h hello) any {
	if h.kind == frameGroup {
		return groupHello{h.from, h.group}
	}
	return h.from
}

func FuzzQuestion(f *testing.F) {
	for _, v := range []struct {
		kind byte
		body any
	}{
		{frameRequest, request{Method: methodHello}},
		{frameRequest, request{Method: methodJoin, From: Identity{ID: "n_a", RaftAddr: "a:1"}}},
		{frameRequest, request{Method: methodConsent, From: Identity{ID: "n_a"}, Members: []Member{{"n_a", "a:1"}}}},
		{frameResponse, response{Self: Identity{ID: "n_a"}, Fault: faultOf(&NotLeaderError{"b:1"})}},
	} {
		var b bytes.Buffer
		if err := writeFrame(&b, v.kind, v.body); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if q, err := readRequest(bytes.NewReader(data)); err == nil {
			roundTrip(t, frameRequest, q, func(b *bytes.Buffer) (any, error) { return readRequest(b) })
		}
		if a, err := readResponse(bytes.NewReader(data)); err == nil {
			_ = a.Fault.err()
			roundTrip(t, frameResponse, a, func(b *bytes.Buffer) (any, error) { return readResponse(b) })
		}
	})
}

// roundTrip writes what was read and reads it again. JSON may grow by that, so that it no
// longer fits.
func roundTrip(t *testing.T, kind byte, v any, read func(*bytes.Buffer) (any, error)) {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil || len(text) > maxHandshakeBytes {
		return
	}
	var b bytes.Buffer
	if err := writeFrame(&b, kind, v); err != nil {
		t.Fatal(err)
	}
	got, err := read(&b)
	if diff := cmp.Diff(v, got, cmp.AllowUnexported(hello{})); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}
