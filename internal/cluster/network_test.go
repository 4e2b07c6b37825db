package cluster

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// network is three hosts on a bridge, to which the tests are connected, too.
type network struct {
	t      *testing.T
	id     string // part of the names of all that belongs to it
	subnet string // its first three numbers

	mu sync.Mutex // held while a rule is changed
}

const size = 3 // nodes of a cluster

var networks atomic.Uint32

func newNetwork(t *testing.T) *network {
	w := &network{t: t, id: fmt.Sprintf("txc%dx%d", os.Getpid(), networks.Add(1)), subnet: freeSubnet(t)}
	t.Cleanup(w.remove)
	lines := []string{
		"link add " + w.id + " type bridge",
		"addr add " + w.hostAddress() + "/24 dev " + w.id,
		"link set " + w.id + " up",
	}
	for i := range size {
		lines = append(lines,
			"netns add "+w.namespace(i),
			"link add "+w.bridgePort(i)+" type veth peer name eth0 netns "+w.namespace(i),
			"link set "+w.bridgePort(i)+" master "+w.id+" up",
		)
	}
	w.must(batch("", lines...))
	for i := range size {
		w.must(batch(w.namespace(i), "link set lo up", "addr add "+w.address(i)+"/24 dev eth0", "link set eth0 up"))
	}
	return w
}

// namespace is the network namespace of a node, and bridgePort the bridge's end of its link.
func (w *network) namespace(i int) string  { return fmt.Sprintf("%sn%d", w.id, i) }
func (w *network) bridgePort(i int) string { return fmt.Sprintf("%sn%d", w.id, i) }

// address is the address of a node, and hostAddress that of the tests.
func (w *network) address(i int) string { return fmt.Sprintf("%s.%d", w.subnet, i+1) }
func (w *network) hostAddress() string  { return w.subnet + ".254" }

// execPrefix is the prefix of a command that runs at a node. Unlike "ip netns exec" it keeps the
// mounts.
func (w *network) execPrefix(i int) []string {
	return []string{"nsenter", "--net=/run/netns/" + w.namespace(i), "--"}
}

func (w *network) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("the network needs root, network namespaces, veth and bridge: %v", err)
	}
}

func batch(space string, lines ...string) error {
	args := []string{"-batch", "-"}
	if space != "" {
		args = append([]string{"-n", space}, args...)
	}
	cmd := exec.Command("ip", args...)
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip: %w: %s", err, out)
	}
	return nil
}

// setFirewallRule changes which packets a node accepts.
func (w *network) setFirewallRule(at int, args ...string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	argv := append(append(w.execPrefix(at), "iptables", "-w"), args...)
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, out)
	}
	return nil
}

// dropIncoming makes a node drop the packets of another one, which still receives its packets.
func (w *network) dropIncoming(at, to int) error {
	return w.setFirewallRule(at, "-A", "INPUT", "-s", w.address(to), "-j", "DROP")
}

// partition cuts the connection between two nodes, in both directions.
func (w *network) partition(a, b int) error {
	if err := w.dropIncoming(a, b); err != nil {
		return err
	}
	return w.dropIncoming(b, a)
}

// setLink disconnects a node, or connects it again.
func (w *network) setLink(i int, up bool) error {
	state := "down"
	if up {
		state = "up"
	}
	return batch("", "link set "+w.bridgePort(i)+" "+state)
}

// heal removes all disturbances.
func (w *network) heal() error {
	for i := range size {
		if err := w.setFirewallRule(i, "-F", "INPUT"); err != nil {
			return err
		}
		if err := w.setLink(i, true); err != nil {
			return err
		}
	}
	return nil
}

func (w *network) remove() {
	for i := range size {
		_ = batch("", "netns del "+w.namespace(i)) // its link is removed with it
	}
	_ = batch("", "link del "+w.id)
}

// removeNetworks removes those of processes that no longer run.
func removeNetworks() {
	dead := func(name string) bool {
		var pid, n int
		k, _ := fmt.Sscanf(name, "txc%dx%d", &pid, &n)
		return k == 2 && !alive(pid)
	}
	spaces, _ := os.ReadDir("/run/netns")
	for _, s := range spaces {
		if dead(s.Name()) {
			_ = batch("", "netns del "+s.Name())
		}
	}
	links, _ := net.Interfaces()
	for _, l := range links {
		if dead(l.Name) {
			_ = batch("", "link del "+l.Name)
		}
	}
}

// freeSubnet looks for a network of 256 addresses that this machine does not use.
func freeSubnet(t *testing.T) string {
	taken, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	first := rand.IntN(250)
	for k := range 250 {
		subnet := fmt.Sprintf("10.77.%d", (first+k)%250)
		free := true
		for _, a := range taken {
			free = free && !strings.HasPrefix(a.String(), subnet+".")
		}
		if free {
			return subnet
		}
	}
	t.Fatal("this machine is in all of 10.77.0.0 to 10.77.249.255 already")
	return ""
}
