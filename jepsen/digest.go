package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/zkd-project/zkd/jepsen/workload"
)

// digestEvery is after how many transactions servers keep a digest of the tree.
const digestEvery = 128

// compareDigests has all servers come to the same transaction and compares what they hold at
// every one of which two of them know the digest.
func (r *run) compareDigests(ctx context.Context, e *workload.Env) {
	limit, cancel := context.WithTimeout(ctx, recovery)
	defer cancel()
	// So many writes cross a multiple at which a digest is kept.
	if err := e.Churn(limit, digestEvery+1); err != nil {
		r.verdict.trouble("the cluster takes no writes after the last fault: %v", err)
		return
	}
	for {
		all, newest := r.digests()
		same := true
		for _, z := range newest {
			same = same && z != "" && z == newest[0]
		}
		if same {
			r.compare(all)
			return
		}
		select {
		case <-limit.Done():
			r.verdict.trouble("servers do not come to the same transaction: their newest digests are of %v", newest)
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// digests are what each server knows, by zxid, and the newest zxid of each.
func (r *run) digests() (all []map[string]string, newest []string) {
	for i := 1; i <= r.o.Nodes; i++ {
		known := map[string]string{}
		last := ""
		for line := range strings.Lines(r.c.Word(i, "hash")) {
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
