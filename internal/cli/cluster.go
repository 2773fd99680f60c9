package cli

import (
	"context"
	"os"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/client"
)

const configNode = "/zookeeper/config"

func clusterCommands() []command {
	return []command{
		{name: "config", syntax: "[-c] [-w] [-s]", about: "print the group of servers: -c only where clients connect, -w and watch it, -s with the stat", opts: "c w s", max: 0, run: runConfig},
		{name: "reconfig", syntax: "[-s] [-v version] [[-file path] | [-members serverID=host:port1:port2;port3[,...]*]] | [-add serverId=host:port1:port2;port3[,...]]* [-remove serverId[,...]*]", about: "change the group of servers", opts: "s v: file: members: add: remove:", max: 0, run: runReconfig},
	}
}

func runConfig(ctx context.Context, c *call) error {
	data, stat, err := get(ctx, c, c.sh.conn.root, configNode)
	if err != nil {
		return err
	}
	if c.opts.has("c") {
		data = []byte(clientAddresses(string(data)))
	}
	if c.format == formatTable && data == nil {
		data = []byte("null")
	}
	return c.printData(configNode, data, stat)
}

// clientAddresses is the version and the connection string for clients: lines of the form
// server.1=host:port:port:role;[clientHost:]clientPort and version=….
func clientAddresses(config string) string {
	version, addrs := "", []string{}
	for line := range strings.Lines(config) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch {
		case key == "version":
			version = value
		case strings.HasPrefix(key, "server."):
			server, addr, ok := strings.Cut(value, ";")
			if !ok {
				continue
			}
			addr, _, _ = strings.Cut(addr, ";") // behind it: the secure port
			if !strings.Contains(addr, ":") {
				host, _, _ := strings.Cut(server, ":")
				addr = host + ":" + addr
			}
			addrs = append(addrs, addr)
		}
	}
	return version + " " + strings.Join(addrs, ",")
}

func runReconfig(ctx context.Context, c *call) error {
	req := client.ReconfigRequest{
		Joining: strings.ToLower(c.opts["add"]), Leaving: strings.ToLower(c.opts["remove"]),
		NewMembers: strings.ToLower(c.opts["members"]), FromConfig: -1,
	}
	incremental := c.opts.has("add") || c.opts.has("remove")
	whole := c.opts.has("members") || c.opts.has("file")
	switch {
	case !incremental && !whole:
		return &exitError{exitUsage, c.cmd.usage()}
	case incremental && whole:
		return usagef("Can't use -file or -members together with -add or -remove (mixing incremental and non-incremental modes is not allowed)")
	case c.opts.has("members") && c.opts.has("file"):
		return usagef("Can't use -file and -members together (conflicting non-incremental modes)")
	}
	if v, ok := c.opts["v"]; ok {
		var err error
		if req.FromConfig, err = strconv.ParseInt(v, 16, 64); err != nil {
			return usagef("-v must be followed by a long (configuration version)")
		}
	}
	if c.opts.has("file") {
		var err error
		if req.NewMembers, err = membersOf(c.opts["file"]); err != nil {
			return err
		}
	}
	config, stat, err := c.sh.conn.root.Reconfig(ctx, req)
	if err != nil {
		return err
	}
	if c.format == formatTable {
		c.printf("Committed new configuration:\n")
	}
	return c.printData(configNode, config, stat)
}

// membersOf reads the server lines of a dynamic configuration file.
func membersOf(name string) (string, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	var servers []string
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "server.") {
			servers = append(servers, line)
		}
	}
	if len(servers) == 0 {
		return "", usagef("Error processing %s: it has no line server.N=…", name)
	}
	return strings.Join(servers, ","), nil
}
