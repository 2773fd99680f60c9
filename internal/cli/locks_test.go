package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/zkd-project/zkd/client"
)

// The names are those that the clients write.
func TestNamesOfContenders(t *testing.T) {
	const u36, u32 = "0f8fad5b-d9cb-469f-a165-70867728950e", "0f8fad5bd9cb469fa16570867728950e"
	for name, want := range map[string]string{
		"_c_" + u36 + "-lock-0000000012":    "lock 12 Curator or Go lock",
		"lock-0000000012":                   "lock 12 Curator or Go lock",
		"_c_" + u32 + "-lock-0000000012":    "lock 12 Curator or Go lock",
		"_c_" + u36 + "-lock--2147483648":   "lock -2147483648 Curator or Go lock",
		"_c_" + u36 + "-latch-0000000000":   "latch 0 Curator leader latch",
		"_c_" + u36 + "-__READ__0000000003": "read 3 Curator read/write lock",
		"_c_" + u36 + "-__WRIT__0000000004": "write 4 Curator read/write lock",
		"_c_" + u36 + "-lease-0000000004":   "lease 4 Curator semaphore",
		u32 + "__lock__0000000005":          "write 5 kazoo lock",
		u32 + "__rlock__0000000005":         "read 5 kazoo lock",
		"x-72057594037927936-0000000006":    "lock 6 ZooKeeper WriteLock",
		"n_0000000007":                      "election 7 ZooKeeper election",
		"job-0000000008":                    "? 8 unknown",
		"leases":                            "? - unknown",
		"blocks-0000000008":                 "? 8 unknown",
	} {
		c := contenderOf("/l/" + name)
		seq := "-"
		if c.Seq != nil {
			b, _ := json.Marshal(*c.Seq)
			seq = string(b)
		}
		require.Equal(t, want, c.Kind+" "+seq+" "+c.Group, name)
	}
}

func states(names ...string) string {
	var queue []*contender
	for _, n := range names {
		queue = append(queue, contenderOf("/l/"+n))
	}
	judge(queue)
	var out []string
	for _, c := range queue {
		_, name := split(c.Path)
		out = append(out, c.State+" "+name)
	}
	return strings.Join(out, ", ")
}

func TestWhoHoldsAndWhoWaits(t *testing.T) {
	require.Equal(t, "holds a-lock-0000000001, waits a-lock-0000000002, waits a-lock-0000000010",
		states("a-lock-0000000010", "a-lock-0000000002", "a-lock-0000000001"))
	require.Equal(t, "holds a__READ__0000000001, holds a__READ__0000000002, waits a__WRIT__0000000003, waits a__READ__0000000004",
		states("a__READ__0000000004", "a__WRIT__0000000003", "a__READ__0000000002", "a__READ__0000000001"))
	require.Equal(t, "holds a__WRIT__0000000001, waits a__READ__0000000002", states("a__READ__0000000002", "a__WRIT__0000000001"))
	require.Equal(t, "holds a-lease-0000000001, holds a-lease-0000000002", states("a-lease-0000000001", "a-lease-0000000002"))
	require.Equal(t, "foreign x__lock__0000000000, holds a-lock-0000000001, waits a-lock-0000000002, foreign readme",
		states("a-lock-0000000002", "readme", "x__lock__0000000000", "a-lock-0000000001"))
	require.Empty(t, states())
}

// However the queue looks, somebody of its own holds it, and exactly one where it is a mutex.
func TestAQueueHasAHolder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`(a-lock-|b__lock__|c__rlock__|n_)00000000[0-9]{2}`), 1, 12, rapid.ID).Draw(t, "names")
		var queue []*contender
		for _, n := range names {
			queue = append(queue, contenderOf("/l/"+n))
		}
		judge(queue)
		groups, holders := map[string]bool{}, 0
		for _, c := range queue {
			if c.State != "foreign" {
				groups[c.Group] = true
			}
			if c.State == "holds" {
				holders++
			}
		}
		if len(groups) != 1 || holders == 0 || holders > 1 && !groups["kazoo lock"] {
			t.Fatalf("%d holders in %v of %q", holders, groups, names)
		}
	})
}

func TestLocksShowsOwnersAndAddresses(t *testing.T) {
	f := newFixture(t)
	f.create("/lock")
	require.Equal(t, outcome{exitOK, "", "nobody holds or awaits /lock\n"}, f.run("locks", "/lock"))
	for _, n := range []string{"/lock/_c_x-lock-", "/lock/_c_y-lock-"} {
		_, _, err := f.c.Create(t.Context(), n, []byte("10.1.2.3"), client.ModeEphemeralSequential, nil)
		require.NoError(t, err)
	}
	f.create("/lock/z__lock__0000000009")
	var o outcome
	eventually(t, "both addresses", func() bool { // the server is asked for them for a moment only
		o = f.run("-o", "json", "locks", "/lock")
		return strings.Count(o.out, `"127.0.0.1:`) == 2
	})
	require.Equal(t, exitOK, o.code, o.err)
	require.Contains(t, o.err, "1 contenders do not belong to the queue")
	var queue []contender
	for d := json.NewDecoder(strings.NewReader(o.out)); d.More(); {
		var c contender
		require.NoError(t, d.Decode(&c))
		queue = append(queue, c)
	}
	require.Len(t, queue, 3)
	require.Equal(t, []string{"holds", "waits", "foreign"}, []string{queue[0].State, queue[1].State, queue[2].State})
	require.Equal(t, hex(f.c.SessionID()), queue[0].Owner)
	require.Regexp(t, `^127\.0\.0\.1:\d+$`, queue[0].Address, "as the server knows it, not as the data says")
	require.Equal(t, "0x0", queue[2].Owner)
	require.Empty(t, queue[2].Address)
	var table string
	eventually(t, "both addresses", func() bool {
		table = f.run("locks", "/lock").out
		return strings.Count(table, "127.0.0.1:") == 2
	})
	require.Regexp(t, `(?m)^STATE +SEQUENCE +KIND +OWNER +AGE +ADDRESS +DATA +NODE$`, table)
	require.Regexp(t, `(?m)^holds +0 +lock +0x[0-9a-f]+ +\S+ +127.0.0.1:\d+ +10.1.2.3 +_c_x-lock-0000000000$`, table)
}

func TestConnectionsOfAServer(t *testing.T) {
	const cons = " /127.0.0.1:4444[1](queued=0,recved=3,sent=3,sid=0x1000a2b,lop=PING,est=1)\n" +
		" /0:0:0:0:0:0:0:1:5555[0](queued=0,recved=1,sent=0)\n /[::1]:5556[1](queued=0,sid=0xff,lop=NA)\n\n"
	require.Equal(t, map[string]string{"0x1000a2b": "127.0.0.1:4444", "0xff": "[::1]:5556"}, parseConnections(strings.NewReader(cons)))
	require.Empty(t, parseConnections(strings.NewReader("cons is not executed because it is not in the whitelist.\n")))
}

func FuzzConnections(f *testing.F) {
	f.Add([]byte(" /127.0.0.1:4444[1](queued=0,sid=0x1)\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for sid, addr := range parseConnections(bytes.NewReader(b)) {
			if !strings.HasPrefix(sid, "0x") || addr == "" {
				t.Fatalf("%q: %q", sid, addr)
			}
		}
	})
}
