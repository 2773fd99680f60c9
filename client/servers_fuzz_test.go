package client

import (
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A list of servers that is taken has addresses that can be dialed and a valid root, and reads the
// same once it is written out.
func FuzzServers(f *testing.F) {
	for _, s := range []string{"a:2181,b:2182/root", "[::1]:2181", "a", " a:1 , ,a:1", "/x", "a:70000", "::1", "[fe80::1%eth0]:1", "a:1//"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		hosts, root, err := parseServers(s)
		if err != nil {
			return
		}
		require.NotEmpty(t, hosts)
		require.True(t, root == "" || checkPath(root, false) == "", root)
		for _, h := range hosts {
			_, _, err := net.SplitHostPort(h)
			require.NoError(t, err)
		}
		again, at, err := parseServers(strings.Join(hosts, ",") + root)
		require.NoError(t, err)
		require.Equal(t, hosts, again)
		require.Equal(t, root, at)
	})
}
