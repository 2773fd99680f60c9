package config

import "strings"

// nearest returns the candidate that name was most likely meant to be, or "" if none is
// near. Letter case does not count: keys are case sensitive in ZooKeeper too, and a wrong
// case is the most frequent slip. The first of several equally near ones wins.
func nearest(name string, candidates []string) string {
	best, bestDistance := "", 1+max(1, min(3, len(name)/4))
	lower := strings.ToLower(name)
	for _, c := range candidates {
		if d := distance(lower, strings.ToLower(c), bestDistance); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// distance counts the insertions, deletions, replacements and swaps of neighbours that make
// b out of a (optimal string alignment). It may return any number >= bound once it knows
// that the distance is not below bound.
func distance(a, b string, bound int) int {
	if len(a)-len(b) >= bound || len(b)-len(a) >= bound {
		return bound
	}
	// Three rows of the usual table: two back, previous, current.
	back, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			change := prev[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			cur[j] = min(change, prev[j]+1, cur[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], back[j-2]+1)
			}
		}
		back, prev, cur = prev, cur, back
	}
	return prev[len(b)]
}
