package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Groups and weights are ZooKeeper's hierarchical quorums: a set of servers is a quorum when in
// more than half of the groups it has more than half of the group's weight; groups without
// weight do not count. raft counts each voter once. So what can be had is
//
//   - weight 0: the server has no vote, which is what an observer is here;
//   - groups and weights whose quorums are the majorities of the servers that have a vote, such
//     as one group of all with equal weights.
//
// Anything else would promise a safety that the cluster does not have, and is refused.

// maxGroupedVoters bounds the comparison of quorums, which tries all sets of voters.
const maxGroupedVoters = 16

// addGroup is the setter of group.N: the numbers of its servers.
func addGroup(b *builder, v value) error {
	group, err := memberNumber(v)
	if err != nil {
		return err
	}
	for text := range strings.SplitSeq(v.text, ":") {
		id, err := parseInteger(strings.TrimSpace(text), 1, maxServerID)
		if err != nil {
			return fmt.Errorf("server number %w", err)
		}
		if other, taken := b.groups[int(id)]; taken {
			return fmt.Errorf("server %d is in group %d already; allowed: one group per server", id, other)
		}
		if b.groups == nil {
			b.groups = map[int]int{}
		}
		b.groups[int(id)] = group
	}
	b.groupLines = append(b.groupLines, v)
	return nil
}

// A weightLine is a weight.N.
type weightLine struct {
	id     int
	weight int64
	value  value
}

// addWeight is the setter of weight.N.
func addWeight(b *builder, v value) error {
	id, err := memberNumber(v)
	if err != nil {
		return err
	}
	weight, err := parseInteger(v.text, 0, anyInt)
	if err != nil {
		return err
	}
	b.weights = append(b.weights, weightLine{id, weight, v})
	return nil
}

// settleGroups makes observers of the servers without weight, and refuses quorums that raft
// does not have.
func (b *builder) settleGroups() {
	if len(b.groups) == 0 {
		for _, w := range b.weights {
			b.problem(w.value.origin, w.value.written, "there are no groups; allowed: group.N lines with every participant, or no weights")
		}
		return
	}
	if !b.groupsFit() {
		return
	}
	weights := map[int]int64{}
	for _, m := range b.members {
		if m.Role == Participant {
			weights[m.ID] = 1
		}
	}
	for _, w := range b.weights {
		if _, votes := weights[w.id]; votes {
			weights[w.id] = w.weight
		}
	}
	b.dropWeightless(weights)
	b.checkQuorums(weights)
}

// groupsFit holds the lines to ZooKeeper's rules.
func (b *builder) groupsFit() bool {
	problems := len(b.problems)
	known := func(id int) bool {
		return slices.ContainsFunc(b.members, func(m memberLine) bool { return m.ID == id })
	}
	for _, m := range b.members {
		if _, grouped := b.groups[m.ID]; !grouped && m.Role == Participant {
			b.problem(m.value.origin, m.value.written, "is in no group; allowed: every participant in one group.N, or no groups at all")
		}
	}
	for _, v := range b.groupLines {
		for text := range strings.SplitSeq(v.text, ":") {
			if id, _ := strconv.Atoi(strings.TrimSpace(text)); !known(id) {
				b.problem(v.origin, v.written, "there is no line server.%d; allowed: numbers of the server.N lines", id)
			}
		}
	}
	for _, w := range b.weights {
		if !known(w.id) {
			b.problem(w.value.origin, w.value.written, "there is no line server.%d; allowed: the number of one of the server.N lines", w.id)
		}
	}
	return len(b.problems) == problems
}

// dropWeightless makes observers of the participants that do not count.
func (b *builder) dropWeightless(weights map[int]int64) {
	for i := range b.members {
		m := &b.members[i]
		if weight, votes := weights[m.ID]; !votes || weight > 0 {
			continue
		}
		delete(weights, m.ID)
		m.Role = Observer
		at := slices.IndexFunc(b.weights, func(w weightLine) bool { return w.id == m.ID })
		v := b.weights[at].value
		b.warn(v.origin, v.written, "0: the server has no vote and is an observer")
	}
}

// checkQuorums refuses groups and weights whose quorums are not the majorities.
func (b *builder) checkQuorums(weights map[int]int64) {
	const allowed = "allowed: 0 for a server without a vote, the same weight for all others, and groups whose quorums are the majorities, for example one group"
	var voters []int
	for id := range weights {
		voters = append(voters, id)
	}
	slices.Sort(voters)
	if b.plainMajority(weights) || len(voters) <= maxGroupedVoters && b.equalMajority(voters, weights) {
		return
	}
	v := b.groupLines[len(b.groupLines)-1]
	for _, w := range b.weights {
		if _, votes := weights[w.id]; votes && w.weight != 1 {
			v = w.value
			break
		}
	}
	b.problem(v.origin, v.written, "groups and weights make quorums that are not the majorities, and here every voter counts once; "+allowed)
}

// plainMajority says whether all voters are in one group with one weight.
func (b *builder) plainMajority(weights map[int]int64) bool {
	group, weight := 0, int64(0)
	for id, w := range weights {
		if group != 0 && (b.groups[id] != group || w != weight) {
			return false
		}
		group, weight = b.groups[id], w
	}
	return true
}

// equalMajority says whether a set of voters is a quorum exactly if it is a majority.
func (b *builder) equalMajority(voters []int, weights map[int]int64) bool {
	total := map[int]int64{}
	for _, id := range voters {
		total[b.groups[id]] += weights[id]
	}
	for set := range 1 << len(voters) {
		count, has := 0, map[int]int64{}
		for i, id := range voters {
			if set>>i&1 == 1 {
				count++
				has[b.groups[id]] += weights[id]
			}
		}
		won := 0
		for group, weight := range has {
			if 2*weight > total[group] {
				won++
			}
		}
		if (2*won > len(total)) != (2*count > len(voters)) {
			return false
		}
	}
	return true
}
