package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A list that is taken has as many entries as commas and one, each with permissions that exist.
func FuzzACLText(f *testing.F) {
	for _, s := range []string{"world:anyone:cdrwa", "digest:bob:9uBXuXL6sZk=:r,ip:10.0.0.0/8:w", "ip:::1:r", "x", "::", "a:b:z", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		list, err := parseACL(s)
		if err != nil {
			return
		}
		commas := 0
		for _, r := range s {
			if r == ',' {
				commas++
			}
		}
		require.Len(t, list, commas+1)
		for _, a := range list {
			require.Zero(t, a.Perms&^31)
		}
	})
}

// What others have written into a node of quotas must not stop the shell.
func FuzzQuotaText(f *testing.F) {
	for _, s := range []string{"count=5,bytes=-1", "count=5,bytes=10=;byteHardLimit=7;countHardLimit=", "=", ",;=,", "count=99999999999999999999"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		require.LessOrEqual(t, len(parseQuota(b)), len(b))
	})
}
