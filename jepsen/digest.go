package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zkd-project/zkd/jepsen/workload"
)

// digestEvery is after how many transactions servers keep a digest of the tree.
const digestEvery = 128

// compareDigests has all servers come to the same transaction and compares what they hold at
// every one of which two of them know the digest.
func (r *run) compareDigests(ctx context.Context, e *workload.Env) {
	var newest []string
	for began := time.Now(); len(newest) == 0 || time.Since(began) < r.o.recovery(); {
		// So many writes cross a multiple at which a digest is kept, unless the leader changes among
		// them, with which the count begins anew: then there is another turn.
		limit, cancel := context.WithTimeout(ctx, r.o.recovery())
		from, err := e.Churn(limit, digestEvery+1)
		cancel()
		if err != nil {
			r.verdict.trouble("the cluster takes no writes after the last fault: %v", err)
			return
		}
		var all []map[string]string
		if all, newest = r.sameDigests(from, r.o.recovery()/3); all != nil {
			r.compare(all)
			return
		}
	}
	r.verdict.trouble("servers do not come to the same transaction: their newest digests are of %q", newest)
}

// sameDigests waits until all servers have their newest digest of the same transaction, one from
// after the given zxid. If they do not come to that in time, there are none, but what is the newest
// of each.
func (r *run) sameDigests(from int64, patience time.Duration) (all []map[string]string, newest []string) {
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		all, newest = r.digests()
		zxid, err := strconv.ParseInt(newest[0], 16, 64)
		if err == nil && zxid > from && !slices.ContainsFunc(newest, func(z string) bool { return z != newest[0] }) {
			return all, newest
		}
		if time.Since(began) > patience {
			return nil, newest
		}
	}
}

// digests are what each server knows, by zxid, and the newest zxid of each.
func (r *run) digests() (all []map[string]string, newest []string) {
	for i := 1; i <= r.o.Nodes; i++ {
		known := map[string]string{}
		last := ""
		for line := range strings.Lines(r.c.WordWithin(i, "hash", promisedRecovery/3)) {
			if zxid, digest, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
				known[zxid] = digest
				last = zxid
			}
		}
		all = append(all, known)
		newest = append(newest, last)
	}
	return all, newest
}

func (r *run) compare(all []map[string]string) {
	first := map[string]string{}
	from := map[string]int{}
	for i, known := range all {
		for zxid, digest := range known {
			other, ok := first[zxid]
			if !ok {
				first[zxid], from[zxid] = digest, i+1
				continue
			}
			r.verdict.Digests++
			if other != digest {
				r.verdict.violation("digests", fmt.Sprintf("servers %d and %d hold different trees at zxid %s", from[zxid], i+1, zxid))
			}
		}
	}
}
