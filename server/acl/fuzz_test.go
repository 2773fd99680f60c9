package acl

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The name of an ip entry is a network or refused; a caller at its own address is in it.
func FuzzIPEntry(f *testing.F) {
	for _, s := range []string{"10.0.0.0/8", "::1", "::ffff:192.0.2.1/120", "fe80::1%eth0", "1.2.3.4/33", "1.2.3.4/", "/8", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		network, ok := parseCIDR(s)
		if !ok {
			return
		}
		require.True(t, network.IsValid())
		require.True(t, network.Contains(network.Addr()))
		require.True(t, matchesCIDR(network.Addr().String(), s))
		again, ok := parseCIDR(network.String())
		require.True(t, ok)
		require.Equal(t, network, again)
	})
}
