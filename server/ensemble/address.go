package ensemble

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// A HostPort is where something can be reached. The zero HostPort is nowhere.
type HostPort struct {
	Host string // IP address without brackets, or name
	Port int
}

// String is "host:port" with brackets around an IPv6 address.
func (h HostPort) String() string {
	if strings.Contains(h.Host, ":") {
		return "[" + h.Host + "]:" + strconv.Itoa(h.Port)
	}
	return h.Host + ":" + strconv.Itoa(h.Port)
}

// text is String as ZooKeeper writes it in a configuration: Java shortens no IPv6 address.
func (h HostPort) text() string {
	ip, err := netip.ParseAddr(h.Host)
	if err != nil || !ip.Is6() {
		return h.String()
	}
	var b strings.Builder
	for i, octets := 0, ip.As16(); i < len(octets); i += 2 {
		if i > 0 {
			b.WriteByte(':')
		}
		b.WriteString(strconv.FormatUint(uint64(octets[i])<<8|uint64(octets[i+1]), 16))
	}
	if ip.Zone() != "" {
		b.WriteString("%" + ip.Zone())
	}
	return HostPort{b.String(), h.Port}.String()
}

// folded is the address with the host in lower case: names have no letter case.
func (h HostPort) folded() HostPort { return HostPort{strings.ToLower(h.Host), h.Port} }

// everywhere says whether the address means another place on every machine: the unspecified
// address and the loopback.
func (h HostPort) everywhere() bool {
	if strings.EqualFold(h.Host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(h.Host)
	return err == nil && (ip.IsUnspecified() || ip.IsLoopback())
}

// ParseClientAddress reads "port" or "host:port". Without a host it is 0.0.0.0.
func ParseClientAddress(text string) (HostPort, error) {
	text = strings.TrimSpace(text)
	if !strings.Contains(text, ":") {
		port, err := parsePort(text)
		return HostPort{"0.0.0.0", port}, err
	}
	host, fields, err := SplitHost(text)
	if err != nil {
		return HostPort{}, err
	}
	if len(fields) != 1 {
		return HostPort{}, fmt.Errorf("%q is not a port or host:port", text)
	}
	port, err := parsePort(fields[0])
	return HostPort{host, port}, err
}

// SplitHost cuts the host off and returns the fields between the colons after it. An IPv6
// address is in brackets. The host is in its canonical form.
func SplitHost(text string) (host string, fields []string, err error) {
	text = strings.TrimSpace(text)
	rest := ""
	if strings.HasPrefix(text, "[") {
		end := strings.IndexByte(text, ']')
		if end < 0 {
			return "", nil, fmt.Errorf(`%q has no "]"`, text)
		}
		host, rest = text[1:end], text[end+1:]
		if ip, err := netip.ParseAddr(host); err != nil || !ip.Is6() {
			return "", nil, fmt.Errorf("%q in brackets is not an IPv6 address", host)
		}
	} else if host = text; strings.Contains(text, ":") {
		i := strings.IndexByte(text, ':')
		host, rest = text[:i], text[i:]
	}
	if err := CheckHost(host); err != nil {
		return "", nil, err
	}
	if rest == "" {
		return canonical(host), nil, nil
	}
	if rest[0] != ':' {
		return "", nil, fmt.Errorf(`%q goes on with %q instead of ":" and a port`, text[:len(text)-len(rest)], rest)
	}
	return canonical(host), strings.Split(rest[1:], ":"), nil
}

// canonical is the one way in which an IP address is written; an IPv4 address in the clothes
// of an IPv6 one is an IPv4 address, as in Java. Names stay as they are.
func canonical(host string) string {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().String()
	}
	return host
}

// maxHostBytes is the length of the longest name that DNS knows.
const maxHostBytes = 253

// CheckHost accepts IP addresses, IPv6 without brackets, and what may be a name; it resolves
// nothing.
func CheckHost(host string) error {
	if host == "" {
		return errors.New("the host is empty; allowed: a name or an IP address")
	}
	if len(host) > maxHostBytes {
		return fmt.Errorf("the host has %d bytes; allowed: a name or an IP address of at most %d", len(host), maxHostBytes)
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		if strings.Trim(ip.Zone(), "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ._-") != "" {
			return fmt.Errorf("%q has an odd zone; allowed: letters, digits, point, _ and -", host)
		}
		return nil
	}
	if strings.Trim(host, "0123456789.") == "" {
		return fmt.Errorf("%q is no host; allowed: a name or an IP address", host)
	}
	for _, r := range host {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r > 0x7f
		if !letter && (r < '0' || r > '9') && r != '-' && r != '.' && r != '_' {
			return fmt.Errorf("%q is no host; allowed: a name or an IP address, IPv6 in brackets where a port follows", host)
		}
	}
	return nil
}

// parsePort reads a decimal port. A leading zero is refused: somebody may take it for octal.
func parsePort(text string) (int, error) {
	const allowed = "allowed: a whole number, 1 to 65535"
	text = strings.TrimSpace(text)
	digits := strings.TrimPrefix(text, "+")
	if len(digits) > 1 && digits[0] == '0' {
		return 0, fmt.Errorf("port %q has a leading zero; %s", text, allowed)
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	switch {
	case err != nil:
		return 0, fmt.Errorf("port %q is not a number; %s", text, allowed)
	case n < 1 || n > 65535:
		return 0, fmt.Errorf("port %d is out of range; %s", n, allowed)
	}
	return int(n), nil
}
