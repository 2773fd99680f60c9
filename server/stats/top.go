package stats

import (
	"cmp"
	"slices"
	"strconv"
	"sync"

	"github.com/zkd-project/zkd/wire"
)

// A Top counts who asks for what, for as long as somebody looks: requests and their bytes by
// session, user, address, path and opcode. Any number of goroutines may use it.
//
// It is bounded: each of its shards keeps up to 2*topKeys names of each kind. When there are more
// it drops all but the topKeys busiest, so whoever makes a considerable share of the requests is
// found, whatever the others are called; what was dropped is in the sums only, and in Dropped.
type Top struct {
	shards [topShards]topShard
}

const (
	topShards = 8
	topKeys   = 1024
	// topNameBytes is the longest name that is kept: clients choose paths and users.
	topNameBytes = 256
)

// A Dimension is a kind of name.
type Dimension int

// The dimensions.
const (
	BySession Dimension = iota
	ByUser
	ByAddress
	ByPath
	ByOperation
	Dimensions // their number
)

func (d Dimension) String() string {
	return [...]string{"session", "user", "address", "path", "operation"}[d]
}

// An Ask is one request. Names that are "" are not counted; they are copied where they are kept.
type Ask struct {
	Session int64
	User    string
	Address string
	Path    string
	Op      wire.OpCode
	Bytes   int
}

type topShard struct {
	mu      sync.Mutex
	total   Tally
	dropped int64
	names   [Dimensions]map[string]*Tally // guarded by mu, as all of it; nil before the first
	_       [64]byte
}

// A Tally is what was counted under one name.
type Tally struct {
	Name     string
	Requests int64
	Bytes    int64
}

// Record counts a request. The number picks the shard, as for Server.Shard.
func (t *Top) Record(number uint64, a *Ask) {
	s := &t.shards[number%topShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total.Requests++
	s.total.Bytes += int64(a.Bytes)
	if a.Session != 0 {
		var b [18]byte
		s.add(BySession, string(strconv.AppendUint(append(b[:0], "0x"...), uint64(a.Session), 16)), a.Bytes)
	}
	s.add(ByUser, a.User, a.Bytes)
	s.add(ByAddress, a.Address, a.Bytes)
	s.add(ByPath, a.Path, a.Bytes)
	s.add(ByOperation, a.Op.String(), a.Bytes)
}

func (s *topShard) add(d Dimension, name string, bytes int) {
	if name == "" {
		return
	}
	name = name[:min(len(name), topNameBytes)]
	m := s.names[d]
	t := m[name]
	if t == nil {
		if m == nil {
			m = map[string]*Tally{}
			s.names[d] = m
		}
		if len(m) >= 2*topKeys {
			s.prune(m)
		}
		t = &Tally{Name: string([]byte(name))} // name may be a part of a frame
		m[t.Name] = t
	}
	t.Requests++
	t.Bytes += int64(bytes)
}

// prune keeps the busiest names.
func (s *topShard) prune(m map[string]*Tally) {
	for _, t := range busiest(m)[topKeys:] {
		s.dropped += t.Requests
		delete(m, t.Name)
	}
}

// busiest sorts by requests; equal ones by name, so that an answer has an order.
func busiest(m map[string]*Tally) []*Tally {
	all := make([]*Tally, 0, len(m))
	for _, t := range m {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *Tally) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// TopReport is what a Top has counted.
type TopReport struct {
	Total   Tally               // of all requests
	Dropped int64               // requests whose names of some kind were too rare to be kept
	Busiest [Dimensions][]Tally // the busiest names first
}

// Report returns the busiest names of each kind, at most limit of each.
func (t *Top) Report(limit int) TopReport {
	var r TopReport
	var all [Dimensions]map[string]*Tally
	for d := range all {
		all[d] = map[string]*Tally{}
	}
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		r.Total.Requests += s.total.Requests
		r.Total.Bytes += s.total.Bytes
		r.Dropped += s.dropped
		for d, m := range s.names {
			for name, n := range m {
				sum := all[d][name]
				if sum == nil {
					sum = &Tally{Name: name}
					all[d][name] = sum
				}
				sum.Requests += n.Requests
				sum.Bytes += n.Bytes
			}
		}
		s.mu.Unlock()
	}
	for d, m := range all {
		for _, n := range busiest(m) {
			if len(r.Busiest[d]) == limit {
				break
			}
			r.Busiest[d] = append(r.Busiest[d], *n)
		}
	}
	return r
}

// PathPrefix cuts a path behind its first depth names, for counting by path.
func PathPrefix(path []byte, depth int) []byte {
	for i := 1; i < len(path); i++ {
		if path[i] == '/' {
			if depth--; depth <= 0 {
				path = path[:i]
				break
			}
		}
	}
	return path[:min(len(path), topNameBytes)]
}
