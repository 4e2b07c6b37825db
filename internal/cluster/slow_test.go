package cluster

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A slow line: the packets from the other nodes pass a queue of the kernel (NFQUEUE), which this
// program, started once more inside the node's namespace, empties with delay, jitter and loss. This
// also works with kernels without netem.

const (
	roleVariable = "TXMGR_CLUSTER_ROLE"
	roleSlow     = "slow line"
	queueNumber  = 7
)

// slowLine delays what a node receives from the others until over is called, which returns how many
// packets passed and how many of them were lost.
func (w *network) slowLine(at int, delay time.Duration, loss float64) (over func() (packets, lost int, err error), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	argv := append(w.execPrefix(at), self, strconv.Itoa(int(delay.Milliseconds())), fmt.Sprint(loss))
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), roleVariable+"="+roleSlow)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	// It ends when its standard input does, and so with this process, too.
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewReader(out)
	first, err := lines.ReadString('\n')
	if err != nil || first != "ready\n" {
		_ = in.Close()
		return nil, fmt.Errorf("the slow line said %q: %w, %w", first, err, cmd.Wait())
	}
	for i := range size {
		if i == at {
			continue
		}
		if err := w.setFirewallRule(at, "-A", "INPUT", "-s", w.address(i), "-j", "NFQUEUE", "--queue-num", strconv.Itoa(queueNumber), "--queue-bypass"); err != nil {
			_ = in.Close()
			_ = cmd.Wait()
			return nil, err
		}
	}
	return func() (packets, lost int, err error) {
		if err := w.setFirewallRule(at, "-F", "INPUT"); err != nil {
			return 0, 0, err
		}
		_ = in.Close()
		last, _ := lines.ReadString('\n')
		if _, err := fmt.Sscanf(last, "%d %d", &packets, &lost); err != nil {
			return 0, 0, fmt.Errorf("the slow line said %q: %w", last, err)
		}
		return packets, lost, cmd.Wait()
	}, nil
}

// runSlowLine is the program of a slow line.
func runSlowLine() int {
	q, err := openQueue()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if _, err := fmt.Sscan(strings.Join(os.Args[1:], " "), &q.delay, &q.loss); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	done := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(done)
	}()
	fmt.Println("ready")
	if err := q.run(done); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(q.packets, q.lost)
	return 0
}

// The numbers of linux/netfilter/nfnetlink_queue.h that are needed.
const (
	netlinkNetfilter = 12
	subsystemQueue   = 3 << 8
	messagePacket    = subsystemQueue
	messageVerdict   = subsystemQueue | 1
	messageConfig    = subsystemQueue | 2
	attrHeader       = 1 // of a packet: its id
	attrVerdict      = 2
	configCommand    = 1
	configCopy       = 2
	configLength     = 3
	verdictDrop      = 0
	verdictAccept    = 1
)

type queue struct {
	fd            int
	delay         int // milliseconds
	loss          float64
	packets, lost int

	mu       sync.Mutex // held while something is sent; guards sequence
	sequence uint32
}

func openQueue() (*queue, error) {
	runtime.LockOSThread() // the socket belongs to the namespace of the thread that creates it
	fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_RAW, netlinkNetfilter)
	if err != nil {
		return nil, fmt.Errorf("netlink: %w", err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}); err != nil {
		return nil, fmt.Errorf("netlink: %w", err)
	}
	timeout := syscall.Timeval{Usec: 100_000}
	if err := syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &timeout); err != nil {
		return nil, fmt.Errorf("netlink: %w", err)
	}
	q := &queue{fd: fd}
	for _, attribute := range [][]byte{
		attr(configCommand, 1, 0, 0, syscall.AF_INET), // bind
		attr(configCopy, 0, 0, 0, 0, 1),               // no payload
		attr(configLength, 0, 0, 0x40, 0),             // 16,384 packets
	} {
		if err := q.send(messageConfig, attribute); err != nil {
			return nil, fmt.Errorf("netlink: %w", err)
		}
	}
	return q, nil
}

func attr(kind uint16, data ...byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(data)))
	b = append(binary.NativeEndian.AppendUint16(b, kind), data...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

func (q *queue) send(kind uint16, attribute []byte) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sequence++
	b := binary.NativeEndian.AppendUint32(nil, uint32(20+len(attribute)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = binary.NativeEndian.AppendUint16(b, syscall.NLM_F_REQUEST)
	b = binary.NativeEndian.AppendUint32(b, q.sequence)
	b = append(b, 0, 0, 0, 0, 0, 0, 0, queueNumber) // no port; family, version, queue
	return syscall.Sendto(q.fd, append(b, attribute...), 0, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK})
}

// run empties the queue until done is closed.
func (q *queue) run(done <-chan struct{}) error {
	buffer := make([]byte, 1<<16)
	for {
		select {
		case <-done:
			return nil
		default:
		}
		n, _, err := syscall.Recvfrom(q.fd, buffer, 0)
		if err == syscall.EAGAIN || err == syscall.EINTR || err == syscall.ENOBUFS {
			continue
		}
		if err != nil {
			return fmt.Errorf("netlink: %w", err)
		}
		messages, err := syscall.ParseNetlinkMessage(buffer[:n])
		if err != nil {
			return fmt.Errorf("netlink: %w", err)
		}
		for _, m := range messages {
			switch {
			case m.Header.Type == syscall.NLMSG_ERROR && len(m.Data) >= 4 && binary.NativeEndian.Uint32(m.Data) != 0:
				return fmt.Errorf("netlink: %w", syscall.Errno(-int32(binary.NativeEndian.Uint32(m.Data))))
			case m.Header.Type == messagePacket && len(m.Data) > 4:
				q.packet(m.Data[4:])
			}
		}
	}
}

// packet releases one packet after its delay, or drops it.
func (q *queue) packet(attributes []byte) {
	for len(attributes) >= 4 {
		length, kind := int(binary.NativeEndian.Uint16(attributes)), binary.NativeEndian.Uint16(attributes[2:])&0x7fff
		if length < 4 || length > len(attributes) {
			return
		}
		if kind == attrHeader && length >= 8 {
			verdict := byte(verdictAccept)
			q.packets++
			if rand.Float64() < q.loss {
				verdict = verdictDrop
				q.lost++
			}
			answer := attr(attrVerdict, append([]byte{0, 0, 0, verdict}, attributes[4:8]...)...)
			jitter := rand.N(time.Duration(q.delay)*time.Millisecond/2 + 1)
			time.AfterFunc(time.Duration(q.delay)*time.Millisecond+jitter, func() { _ = q.send(messageVerdict, answer) })
			return
		}
		attributes = attributes[min((length+3)&^3, len(attributes)):]
	}
}
