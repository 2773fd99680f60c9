package main

import (
	"os"
	"os/exec"
	"runtime"

	"github.com/zkd-project/zkd/jepsen/cluster"
)

// noNetns says why this machine has no driver netns; "" if it has.
func noNetns() string {
	if runtime.GOOS != "linux" {
		return "network namespaces exist only on Linux"
	}
	if os.Geteuid() != 0 {
		return "network namespaces need root"
	}
	for _, tool := range []string{"ip", "nsenter"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "network namespaces need the program " + tool
		}
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		return "there is no /dev/net/tun"
	}
	return ""
}

// openDriver opens the place for the servers, and notes which it is.
func openDriver(o *Options) (cluster.Driver, error) {
	if o.Driver == "" {
		o.Driver = "netns"
		if noNetns() != "" {
			o.Driver = "loopback"
		}
	}
	if o.Driver == "netns" {
		return cluster.Netns(o.Nodes)
	}
	return cluster.Loopback(o.Nodes)
}
