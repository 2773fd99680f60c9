package acl

import (
	"net/netip"
	"strconv"
	"strings"
)

// mappedBits is the length of the prefix of an IPv4 address written as an IPv6 one
// (::ffff:192.0.2.1).
const mappedBits = 96

// parseCIDR reads the name of an ip entry: an address, IPv4 or IPv6, with or without
// /bits. A mapped IPv4 address counts as IPv4, because that is how callers are written.
func parseCIDR(s string) (netip.Prefix, bool) {
	text, length, hasBits := strings.Cut(s, "/")
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Zone() != "" {
		return netip.Prefix{}, false
	}
	bits := addr.BitLen()
	if hasBits {
		n, err := strconv.ParseUint(length, 10, 8)
		if err != nil || int(n) > bits {
			return netip.Prefix{}, false
		}
		bits = int(n)
	}
	if addr.Is4In6() {
		if bits < mappedBits {
			return netip.Prefix{}, false
		}
		addr, bits = addr.Unmap(), bits-mappedBits
	}
	return netip.PrefixFrom(addr, bits), true
}

// matchesCIDR says whether the caller's address lies in the network of the entry. Different
// families never match.
func matchesCIDR(caller, entry string) bool {
	if caller == entry {
		// The usual case; an entry that is no address never got stored.
		return true
	}
	network, ok := parseCIDR(entry)
	if !ok {
		return false
	}
	addr, err := netip.ParseAddr(caller)
	return err == nil && network.Contains(addr.WithZone("").Unmap())
}
