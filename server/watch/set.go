package watch

import "slices"

// chunkMax is how many watchers share a chunk of a large set: 6 KiB, so that adding one
// moves at most that much.
const chunkMax = 512

// A watcher is a connection's watch of one path.
type watcher struct {
	id   ID
	link uint32 // the element of the connection's list of watches
	kind Kind   // the set of kinds; 0 only while it is being removed
}

// A set holds the watchers of one path, at most one per connection, in the order of
// connection ids. Nearly every path has one watcher, and some have all connections of the
// server: a lone watcher is stored in place, more in sorted chunks of bounded size. One
// sorted slice would be simpler, but 100,000 connections that register in random order
// would move 600 KB each.
//
// Invariants: no chunk is empty; with chunks, solo is unused; ids ascend within a chunk
// and from chunk to chunk.
type set struct {
	solo   [1]watcher // in use if its kind is not 0
	chunks *[][]watcher
}

// numChunks and chunk give the watchers in order, also the lone one:
//
//	for i := range s.numChunks() {
//		for j := range s.chunk(i) {
func (s *set) numChunks() int {
	switch {
	case s.chunks != nil:
		return len(*s.chunks)
	case s.solo[0].kind != 0:
		return 1
	}
	return 0
}

// chunk returns the watchers of chunk i, to be read and changed in place.
func (s *set) chunk(i int) []watcher {
	if s.chunks != nil {
		return (*s.chunks)[i]
	}
	return s.solo[:]
}

// empty says whether there is no watcher.
func (s *set) empty() bool { return s.numChunks() == 0 }

// find returns where id is, or where it belongs: place j in chunk i.
func (s *set) find(id ID) (i, j int, ok bool) {
	low, high := 0, s.numChunks()
	for low < high { // the first chunk whose last id is not below id
		mid := (low + high) / 2
		if c := s.chunk(mid); c[len(c)-1].id < id {
			low = mid + 1
		} else {
			high = mid
		}
	}
	i = low
	if i == s.numChunks() {
		if i == 0 {
			return 0, 0, false
		}
		return i - 1, len(s.chunk(i - 1)), false
	}
	c := s.chunk(i)
	low, high = 0, len(c)
	for low < high {
		mid := (low + high) / 2
		if c[mid].id < id {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return i, low, c[low].id == id
}

// get returns the watcher of id, nil if there is none. It is valid until the set changes.
func (s *set) get(id ID) *watcher {
	i, j, ok := s.find(id)
	if !ok {
		return nil
	}
	return &s.chunk(i)[j]
}

// add adds w, whose id must not be in the set.
func (s *set) add(w watcher) {
	if s.empty() {
		s.solo[0] = w
		return
	}
	i, j, _ := s.find(w.id)
	if s.chunks == nil {
		s.chunks = &[][]watcher{{s.solo[0]}}
		s.solo[0] = watcher{}
	}
	c := (*s.chunks)[i]
	if len(c) < chunkMax {
		(*s.chunks)[i] = slices.Insert(c, j, w)
		return
	}
	// Full: cut it in half, but leave it full if w comes last, because connections tend to
	// register in the order of their ids.
	at := chunkMax / 2
	if j == chunkMax {
		at = chunkMax
	}
	tail := append(make([]watcher, 0, chunkMax), c[at:]...)
	if j >= at {
		tail = slices.Insert(tail, j-at, w)
		c = c[:at]
	} else {
		c = slices.Insert(c[:at], j, w)
	}
	(*s.chunks)[i] = c
	*s.chunks = slices.Insert(*s.chunks, i+1, tail)
}

// remove removes the watcher of id, which must be in the set.
func (s *set) remove(id ID) {
	i, j, _ := s.find(id)
	if s.chunks == nil {
		s.solo[0] = watcher{}
		return
	}
	(*s.chunks)[i] = slices.Delete((*s.chunks)[i], j, j+1)
	if len((*s.chunks)[i]) == 0 {
		s.dropChunks()
	}
}

// sweep removes all watchers whose kind is 0.
func (s *set) sweep() {
	if s.chunks == nil {
		return // a lone watcher of kind 0 is none
	}
	for i, c := range *s.chunks {
		(*s.chunks)[i] = slices.DeleteFunc(c, func(w watcher) bool { return w.kind == 0 })
	}
	s.dropChunks()
}

// dropChunks drops the chunks that have become empty.
func (s *set) dropChunks() {
	*s.chunks = slices.DeleteFunc(*s.chunks, func(c []watcher) bool { return len(c) == 0 })
	if len(*s.chunks) == 0 {
		s.chunks = nil
	}
}
