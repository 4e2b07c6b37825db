package web

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// maxAllow is how many entries the setting allow may have.
const maxAllow = 64

// allowList is the setting allow: which hosts may be called. The zero list allows the hosts of the
// registered URLs.
type allowList struct {
	hosts []string         // lower case, without a port: any port
	ports []string         // host:port
	nets  []netip.Prefix   // any port
	addrs []netip.AddrPort // one port
}

func (a allowList) empty() bool {
	return len(a.hosts)+len(a.ports)+len(a.nets)+len(a.addrs) == 0
}

func parseAllow(text string) (a allowList, err error) {
	entries := strings.Split(text, ",")
	if len(entries) > maxAllow {
		return a, fmt.Errorf("allow has %d entries; at most %d", len(entries), maxAllow)
	}
	for _, entry := range entries {
		if err := a.add(strings.ToLower(strings.TrimSpace(entry))); err != nil {
			return a, err
		}
	}
	return a, nil
}

func (a *allowList) add(entry string) error {
	malformed := fmt.Errorf("allow: %q: want a host, an address or a network (10.0.0.0/8), a host or an address also with :port", clean(entry, 128))
	bare := strings.TrimSuffix(strings.TrimPrefix(entry, "["), "]")
	if addr, err := netip.ParseAddr(bare); err == nil && addr.Zone() == "" {
		addr = addr.Unmap()
		a.nets = append(a.nets, netip.PrefixFrom(addr, addr.BitLen()))
		return nil
	}
	if strings.Contains(entry, "/") {
		prefix, err := netip.ParsePrefix(entry)
		if err != nil || prefix.Addr().Is4In6() {
			return malformed
		}
		a.nets = append(a.nets, prefix.Masked())
		return nil
	}
	if addr, err := netip.ParseAddrPort(entry); err == nil && addr.Addr().Zone() == "" {
		a.addrs = append(a.addrs, netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port()))
		return nil
	}
	host, port, hasPort := strings.Cut(entry, ":")
	if host == "" || strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789-._") != "" {
		return malformed
	}
	if !hasPort {
		a.hosts = append(a.hosts, host)
		return nil
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return malformed
	}
	a.ports = append(a.ports, net.JoinHostPort(host, port))
	return nil
}

// checkHost rejects a URL that is not allowed whatever address its name has.
func (a allowList) checkHost(u *url.URL) error {
	host, port := target(u)
	if a.empty() || a.allowsName(host, port) || len(a.nets)+len(a.addrs) > 0 {
		return nil // checkAddr checks the address when it is known
	}
	return fmt.Errorf("host %s is not in the setting allow", net.JoinHostPort(host, port))
}

func (a allowList) allowsName(host, port string) bool {
	return slices.Contains(a.hosts, host) || slices.Contains(a.ports, net.JoinHostPort(host, port))
}

// covers reports whether an address itself is in the list.
func (a allowList) covers(addr netip.AddrPort) bool {
	return slices.Contains(a.addrs, addr) ||
		slices.ContainsFunc(a.nets, func(p netip.Prefix) bool { return p.Contains(addr.Addr()) })
}

// checkAddr checks the address to which a connection is about to be made for a host, at every
// connection: the name may resolve to another address than before.
func (a allowList) checkAddr(host, port, resolved string) error {
	dialled, err := netip.ParseAddrPort(resolved)
	if err != nil {
		return fmt.Errorf("address %q of host %s: %w", resolved, host, err)
	}
	addr := embedded(dialled.Addr().WithZone(""))
	if a.covers(netip.AddrPortFrom(addr, dialled.Port())) {
		return nil
	}
	if !a.empty() && !a.allowsName(host, port) {
		return fmt.Errorf("host %s has the address %s, which is not in the setting allow", host, dialled)
	}
	kind := reserved(addr)
	if kind == "" || kind == kindLoopback && namesLoopback(host) {
		return nil
	}
	return fmt.Errorf("host %s has the address %s, which is %s; if that is meant, name the address in the setting allow", host, dialled, kind)
}

const kindLoopback = "this machine"

// metadata are addresses outside the link-local networks at which clouds provide machines with
// their credentials.
var metadata = []netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"),
	netip.MustParseAddr("fd20:ce::254"),
	netip.MustParseAddr("100.100.100.200"),
	netip.MustParseAddr("192.0.0.192"),
	netip.MustParseAddr("168.63.129.16"),
}

// reserved names the kind of an address at which no service of a network is; "" for all others.
func reserved(addr netip.Addr) string {
	switch {
	case slices.Contains(metadata, addr):
		return "a metadata service"
	case addr.IsLoopback():
		return kindLoopback
	case addr.IsUnspecified(), addr.Is4() && addr.As4()[0] == 0:
		return "this machine, by no address"
	case addr.IsLinkLocalUnicast():
		return "link-local, where metadata services are"
	case addr.IsMulticast(), addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "not of one machine"
	}
	return ""
}

// nat64 is the network in which translators reach IPv4 addresses (RFC 6052).
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// embedded returns the IPv4 address that is reached through an IPv6 address, if there is one.
func embedded(addr netip.Addr) netip.Addr {
	addr = addr.Unmap()
	if nat64.Contains(addr) {
		b := addr.As16()
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return addr
}

// namesLoopback reports whether a host is localhost or a loopback address.
func namesLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

// target returns the host and the port of a URL.
func target(u *url.URL) (host, port string) {
	port = u.Port()
	if port == "" {
		port = "80"
		if u.Scheme == "https" {
			port = "443"
		}
	}
	return strings.ToLower(u.Hostname()), port
}
