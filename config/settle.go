package config

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
)

func (b *builder) settleFolders() {
	c := b.cfg
	if c.InMemory {
		c.DataDir, c.DataLogDir = "", ""
		return
	}
	if _, set := b.values["dataDir"]; c.DataDir == "" && !set {
		b.problem(Origin{File: c.File}, "dataDir", "is not set; add dataDir=FOLDER")
	}
	c.DataLogDir = cmp.Or(c.DataLogDir, c.DataDir)
}

func (b *builder) settleSessions() {
	c := b.cfg
	if c.MinSessionTimeoutMs == -1 {
		c.MinSessionTimeoutMs = 2 * c.TickTimeMs
	}
	if c.MaxSessionTimeoutMs == -1 {
		c.MaxSessionTimeoutMs = 20 * c.TickTimeMs
	}
	if c.MinSessionTimeoutMs <= c.MaxSessionTimeoutMs {
		return
	}
	v, set := b.values["minSessionTimeout"]
	if !set {
		v = b.values["maxSessionTimeout"]
	}
	b.problem(v.origin, v.written, "the shortest session timeout, %d ms, is above the longest, %d ms; allowed: at most that",
		c.MinSessionTimeoutMs, c.MaxSessionTimeoutMs)
}

func (b *builder) settleLimits() {
	c := b.cfg
	c.MaxClientCnxns, c.MaxCnxns = max(c.MaxClientCnxns, 0), max(c.MaxCnxns, 0)
	c.JuteMaxBufferExtra = int(b.number("jute.maxbuffer.extrasize", 0, anyInt, int64(c.JuteMaxBuffer)))
	b.settleBuffers()

	const defaultSnapshotBytes = 128 << 20
	bySize := int64(defaultSnapshotBytes)
	if kib := b.number("snapSizeLimitInKb", -1, math.MaxInt64/1024, -2); kib >= -1 {
		bySize = max(kib, 0) * 1024
	}
	c.SnapshotBytes = b.number("zkd.snapshotBytes", 0, anyLong, bySize)
	if c.SnapshotBytes == 0 && c.SnapCount == 0 {
		v, set := b.values["zkd.snapshotBytes"]
		if !set {
			v = b.values["snapSizeLimitInKb"]
		}
		b.problem(v.origin, v.written, "no snapshot would ever be taken, and the log would grow for ever; allowed: a size, or snapCount as well")
	}
}

// settleBuffers makes the default limits follow a raised jute.maxbuffer; limits that were
// set must be large enough by themselves.
func (b *builder) settleBuffers() {
	c := b.cfg
	atLeast := func(name string, limit *int64, least int64, leastName string) {
		if *limit >= least {
			return
		}
		if v, set := b.values[name]; set {
			b.problem(v.origin, v.written, "%d is less than %s, so the largest request could never be read; allowed: %d or more",
				*limit, leastName, least)
		}
		*limit = least
	}
	atLeast("zkd.maxConnBufferBytes", &c.MaxConnBufferBytes, int64(c.JuteMaxBuffer), "jute.maxbuffer")
	atLeast("zkd.maxTotalBufferBytes", &c.MaxTotalBufferBytes, c.MaxConnBufferBytes, "zkd.maxConnBufferBytes")
}

// fourLetterWords are the words that exist.
var fourLetterWords = []string{
	"conf", "cons", "crst", "dirs", "dump", "envi", "gtmk", "hash", "isro", "mntr", "ruok", "srst", "srvr", "stat",
	"stmk", "wchc", "wchp", "wchs",
}

// settleFourLetterWords follows FourLetterCommands.isEnabled: what comes after "*" does not
// count, srvr is always there because zkServer.sh needs it.
func (b *builder) settleFourLetterWords() {
	words := []string{"srvr"}
	if b.cfg.ReadOnlyMode {
		words = append(words, "isro")
	}
	v := b.values["4lw.commands.whitelist"]
	for _, word := range splitList(v.text) {
		if word == "*" {
			words = append(words, fourLetterWords...)
			break
		}
		if !slices.Contains(fourLetterWords, word) {
			b.warn(v.origin, v.written, fmt.Sprintf("there is no four-letter word %q; known: %s", word, strings.Join(fourLetterWords, ", ")))
			continue
		}
		words = append(words, word)
	}
	slices.Sort(words)
	b.cfg.FourLetterWords = slices.Compact(words)
}

// settlePorts takes this server's client addresses from its server line, which must agree
// with what is set elsewhere.
func (b *builder) settlePorts() {
	c := b.cfg
	if self := c.Cluster.Self(); self != nil {
		b.fromServerLine(self.Client, "clientPort", "clientPortAddress", &c.ClientPort, &c.ClientPortAddress)
		b.fromServerLine(self.SecureClient, "secureClientPort", "secureClientPortAddress", &c.SecureClientPort, &c.SecureClientPortAddress)
	}
	b.needPort("clientPortAddress", "clientPort", c.ClientPort)
	b.needPort("secureClientPortAddress", "secureClientPort", c.SecureClientPort)
	if c.ClientPort < 0 && c.SecureClientPort < 0 {
		b.warn(Origin{}, "", "no client can connect: neither clientPort nor secureClientPort is set")
	}
	if c.ClientPort > 0 && c.ClientPort == c.SecureClientPort && overlap(c.ClientPortAddress, c.SecureClientPortAddress) {
		v := b.values["secureClientPort"]
		b.problem(v.origin, v.written, "port %d is clientPort already; allowed: another port, or client.portUnification for both on one", c.ClientPort)
	}
	if c.Advertised.Host != "" && c.Advertised.Port == 0 {
		c.Advertised.Port = max(c.ClientPort, 0)
	}
}

func (b *builder) fromServerLine(line HostPort, portKey, addressKey string, port *int, host *string) {
	if line == (HostPort{}) {
		return
	}
	if v, set := b.values[portKey]; set && *port != line.Port {
		b.problem(v.origin, v.written, "%s, but the server line of this server says %d; allowed: the same port, or none in one of the two",
			v.text, line.Port)
	}
	if v, set := b.values[addressKey]; set && !wildcard(*host) && !strings.EqualFold(*host, line.Host) {
		if isIP(*host) && isIP(line.Host) {
			b.problem(v.origin, v.written, "%s, but the server line of this server says %s; allowed: the same address, or none in one of the two",
				v.text, line.Host)
		} else {
			b.warn(v.origin, v.written, fmt.Sprintf("%s is not used: the server line of this server says %s", v.text, line.Host))
		}
	}
	*port, *host = line.Port, line.Host
}

// needPort refuses an address without a port, as ZooKeeper does. Where the port is switched
// off, or bad, the address does no harm.
func (b *builder) needPort(addressKey, portKey string, port int) {
	_, portSet := b.values[portKey]
	if v, set := b.values[addressKey]; set && port < 0 && !portSet {
		b.problem(v.origin, v.written, "is set, but %s is not; add %s=PORT", portKey, portKey)
	}
}

func isIP(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

func wildcard(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

func overlap(a, b string) bool { return a == b || wildcard(a) || wildcard(b) }
