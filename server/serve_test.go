package server

import (
	"slices"
	"testing"

	"github.com/zkd-project/zkd/wire"
)

func TestReadsAnswerWithTheirRecords(t *testing.T) {
	c := open(t, startServer(t).addr, 10_000)
	for _, p := range []string{"/p", "/p/b", "/p/a", "/p/a/x"} {
		c.call(wire.OpCreate, createBody(p, []byte(p), persistent), wire.OK)
	}
	c.call(wire.OpCreate, createBody("/p/e", nil, ephemeral), wire.OK)
	want := []string{"a", "b", "e"}
	if got := namesOf(t, c.call(wire.OpGetChildren, readBody("/p", false), wire.OK)); !slices.Equal(got, want) {
		t.Errorf("getChildren %q", got)
	}
	d := wire.NewDecoder(c.call(wire.OpGetChildren2, readBody("/p", false), wire.OK).body)
	if got, st := d.Strings(), d.Stat(); !slices.Equal(got, want) || st.NumChildren != 3 || d.Err() != nil {
		t.Errorf("getChildren2 %q, %+v", got, st)
	}
	if got := namesOf(t, c.call(wire.OpGetEphemerals, pathBody("/p"), wire.OK)); !slices.Equal(got, []string{"/p/e"}) {
		t.Errorf("getEphemerals %q", got)
	}
	d = wire.NewDecoder(c.call(wire.OpGetAllChildrenNumber, pathBody("/p"), wire.OK).body)
	if got := d.Int32(); got != 4 {
		t.Errorf("getAllChildrenNumber %d", got)
	}
	d = wire.NewDecoder(c.call(wire.OpGetACL, pathBody("/p"), wire.OK).body)
	if got := d.ACLs(); !slices.Equal(got, openACL) {
		t.Errorf("getACL %+v", got)
	}
	if data, st := dataOf(t, c.call(wire.OpGetData, readBody("", false), wire.OK)); data != "" || st.NumChildren != 2 {
		t.Errorf("the empty path reads %q, %+v", data, st)
	}
	d = wire.NewDecoder(c.call(wire.OpExists, readBody("/p/a", false), wire.OK).body)
	if st := d.Stat(); st.DataLength != 4 {
		t.Errorf("exists %+v", st)
	}
	r := c.call(wire.OpMultiRead, wire.AppendMulti(nil, []wire.MultiOp{
		{Op: wire.OpGetData, Path: wire.PathWatchRequest{Path: "/p/a"}},
		{Op: wire.OpGetData, Path: wire.PathWatchRequest{Path: "/missing"}},
		{Op: wire.OpGetChildren, Path: wire.PathWatchRequest{Path: "/p"}},
	}), wire.OK)
	d = wire.NewDecoder(r.body)
	results, err := wire.DecodeMultiResults(&d)
	if err != nil || len(results) != 3 || string(results[0].Data) != "/p/a" || results[1].Code != wire.NoNode ||
		!slices.Equal(results[2].Children, want) {
		t.Errorf("multiRead %+v, %v", results, err)
	}
}

// A failed multi is answered with code 0 and one result per operation.
func TestFailedMultiIsAnsweredWithItsResults(t *testing.T) {
	c := open(t, startServer(t).addr, 10_000)
	r := c.call(wire.OpMulti, wire.AppendMulti(nil, []wire.MultiOp{
		{Op: wire.OpCreate, Create: wire.CreateRequest{Path: "/a", ACL: openACL}},
		{Op: wire.OpDelete, Delete: wire.DeleteRequest{Path: "/missing", Version: -1}},
		{Op: wire.OpCheck, Check: wire.CheckRequest{Path: "/", Version: -1}},
	}), wire.OK)
	d := wire.NewDecoder(r.body)
	results, err := wire.DecodeMultiResults(&d)
	if err != nil || len(results) != 3 || results[0].Code != wire.OK || results[1].Code != wire.NoNode ||
		results[2].Code != wire.RuntimeInconsistency {
		t.Errorf("%+v, %v", results, err)
	}
	c.call(wire.OpExists, readBody("/a", false), wire.NoNode)
}

// The hot path of a read must not make garbage.
func TestReadDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools forget")
	}
	srv := startServer(t)
	c := open(t, srv.addr, 10_000)
	c.call(wire.OpCreate, createBody("/n", make([]byte, 100), persistent), wire.OK)
	const n = 1000
	var frames []byte
	for range n {
		frames = append(frames, request(1, wire.OpGetData, readBody("/n", false))...)
	}
	allocs := testing.AllocsPerRun(20, func() {
		c.write(frames)
		for range n {
			c.skipFrame()
		}
	})
	if perRead := allocs / n; perRead > 0.05 {
		t.Errorf("%.2f allocations per read", perRead)
	}
}
