package peer

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/txmgr/txmgr/txn"
)

const (
	magic      = "TXMP"
	version    = 1
	headerSize = len(magic) + 4 // and version, type, length

	maxHandshakeBytes = 2 << 10 // bytes of a hello or a hello reply
	maxRequestBytes   = 8 << 10 // bytes of a request or a response
)

// The types of frames.
const (
	frameRaft       byte = iota + 1 // a hello; raft's messages follow
	frameCall                       // a hello; one request follows
	frameHelloReply                 // the reply to either
	frameRequest
	frameResponse
	// frameGroup is reserved: a hello; the messages of another raft group than group 0 follow. It has a
	// type of its own because unknown fields are ignored: a group in a hello of frameRaft would be overlooked,
	// and raft would get the messages of another group's log.
	frameGroup
)

// hello is the dialer's part of the handshake.
type hello struct {
	kind  byte // frameRaft, frameCall or frameGroup
	from  Identity
	group uint64 // of frameGroup; otherwise 0
}

// groupHello is what a frameGroup carries.
type groupHello struct {
	Identity
	Group uint64 `json:"group"` // 1 to txn.MaxGroup
}

// helloReply is the acceptor's part of the handshake: its identity, and whether it admits the
// dialer.
type helloReply struct {
	Self  Identity `json:"self"`
	Fault fault    `json:"fault,omitzero"`
}

// request is sent once on a connection.
type request struct {
	Method string   `json:"ask"` // one of the methods below
	From   Identity `json:"from,omitzero"`
	// Members are the nodes that are to form a cluster, for methodConsent.
	Members []Member `json:"members,omitempty"`
	// By and Reason are who had the node leave, and why, for methodLeave.
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}

const (
	methodHello   = "hello" // report your identity
	methodJoin    = "join"  // add me
	methodLeave   = "leave" // remove me
	methodConsent = "found" // consent that I bootstrap a cluster with you and these
)

type response struct {
	Self  Identity `json:"self"`
	Fault fault    `json:"fault,omitzero"`
}

// writeFrame sends a frame with one Write.
func writeFrame(w io.Writer, kind byte, body any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encoding: %w", err)
	}
	if len(b) > maxRequestBytes {
		return fmt.Errorf("%w: a message of %d bytes for a peer; want at most %d", txn.ErrInvalid, len(b), maxRequestBytes)
	}
	f := make([]byte, headerSize, headerSize+len(b))
	copy(f, magic)
	f[4], f[5] = version, kind
	binary.BigEndian.PutUint16(f[6:], uint16(len(b)))
	_, err = w.Write(append(f, b...))
	return err
}

// readFrame reads exactly one frame, and nothing that follows it.
func readFrame(r io.Reader, limit int) (kind byte, body []byte, err error) {
	var head [headerSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	switch {
	case head[0] == 0x16 && head[1] == 0x03:
		return 0, nil, fmt.Errorf("%w: the other side speaks TLS, and this node has no certificates", errMalformed)
	case string(head[:len(magic)]) != magic:
		return 0, nil, fmt.Errorf("%w: it begins with %q", errMalformed, head[:len(magic)])
	case head[4] != version:
		return 0, nil, fmt.Errorf("%w: %d; this node speaks %d", errVersion, head[4], version)
	}
	n := int(binary.BigEndian.Uint16(head[6:]))
	if n > limit {
		return 0, nil, fmt.Errorf("%w: a message of %d bytes; want at most %d", errMalformed, n, limit)
	}
	body = make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return 0, nil, err
	}
	return head[5], body, nil
}

func readHello(r io.Reader) (hello, error) {
	kind, body, err := readFrame(r, maxHandshakeBytes)
	if err != nil {
		return hello{}, err
	}
	var h groupHello
	switch kind {
	case frameRaft, frameCall:
		err = decode(body, &h.Identity)
	case frameGroup:
		if err = decode(body, &h); err == nil && (h.Group == 0 || h.Group > txn.MaxGroup) {
			err = fmt.Errorf("%w: group %d; want 1 to %d", errMalformed, h.Group, txn.MaxGroup)
		}
	default:
		err = fmt.Errorf("%w: type %d instead of a hello", errMalformed, kind)
	}
	if err != nil {
		return hello{}, err
	}
	from := h.handshakeIdentity()
	return hello{kind, from, h.Group}, from.check()
}

func readHelloReply(r io.Reader) (helloReply, error) {
	var w helloReply
	err := readBody(r, frameHelloReply, maxHandshakeBytes, &w)
	if err == nil && w.Fault.Code == "" {
		err = w.Self.check()
	}
	return w, err
}

func readRequest(r io.Reader) (request, error) {
	var q request
	err := readBody(r, frameRequest, maxRequestBytes, &q)
	switch {
	case err != nil:
	case len(q.By) > txn.MaxName || len(q.Reason) > txn.MaxReason:
		err = fmt.Errorf("%w: a name of %d bytes and a reason of %d; want at most %d and %d", errMalformed, len(q.By), len(q.Reason), txn.MaxName, txn.MaxReason)
	case q.Method == methodJoin || q.Method == methodLeave:
		err = q.From.check()
	case q.Method == methodConsent:
		err = errors.Join(q.From.check(), checkMembers(q.Members))
	case q.Method != methodHello:
		err = fmt.Errorf("%w: unknown question %.20q", errMalformed, q.Method)
	}
	return q, err
}

func readResponse(r io.Reader) (response, error) {
	var a response
	err := readBody(r, frameResponse, maxRequestBytes, &a)
	if err == nil {
		err = a.Self.check()
	}
	return a, err
}

func readBody(r io.Reader, want byte, limit int, into any) error {
	kind, body, err := readFrame(r, limit)
	if err != nil {
		return err
	}
	if kind != want {
		return fmt.Errorf("%w: type %d instead of %d", errMalformed, kind, want)
	}
	return decode(body, into)
}

func decode(body []byte, into any) error {
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%w: %w", errMalformed, err)
	}
	return nil
}
