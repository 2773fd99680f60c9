package acl

import "fmt"

// A refHeap is a binary min-heap of refs: h[i] <= h[2i+1], h[2i+2].
type refHeap []Ref

func (h *refHeap) push(r Ref) {
	q := append(*h, r)
	i := len(q) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if q[parent] <= r {
			break
		}
		q[i] = q[parent]
		i = parent
	}
	q[i] = r
	*h = q
}

// pop removes the smallest; the heap must not be empty.
func (h *refHeap) pop() Ref {
	q := *h
	smallest := q[0]
	last := q[len(q)-1]
	q = q[:len(q)-1]
	i := 0
	for {
		child := 2*i + 1
		if child >= len(q) {
			break
		}
		if child+1 < len(q) && q[child+1] < q[child] {
			child++
		}
		if last <= q[child] {
			break
		}
		q[i] = q[child]
		i = child
	}
	if len(q) > 0 {
		q[i] = last
	}
	*h = q
	return smallest
}

// check verifies the order, and that every ref is one of the n that were given out.
func (h refHeap) check(n int) error {
	for i, r := range h {
		if parent := h[max(0, i-1)/2]; parent > r {
			return fmt.Errorf("acl: free ref %d stands above %d", parent, r)
		}
		if r == OpenRef || int(r) > n {
			return fmt.Errorf("acl: free ref %d is not among %d", r, n)
		}
	}
	return nil
}
