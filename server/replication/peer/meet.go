package peer

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/raft"
)

// How members that do not know each other's incarnations find them out: a server whose disk
// is new, and a leader whose member has come back with a new disk. A dial of KindMeet is
// meant for a number, "3-", and for no cluster; it is answered with who is there, and ends.
// Nothing else passes. With TLS both certificates are verified for their numbers as always.

// An Introduction is what a member says of itself.
type Introduction struct {
	ID      raft.ServerID
	Cluster string // "": its disk is empty, it belongs to none yet
	Boot    uint64 // nonce of its process
	// Members of the latest configuration that it knows; of an empty one, nobody.
	Members []raft.ServerID
	// SilenceMs is for how long it has not heard of a leader, in milliseconds.
	SilenceMs uint32
	// Plan is what the server lines of its own configuration say, in a form that two servers
	// can compare.
	Plan string
}

const (
	frameIntroduction frameType = 5 // the answer to a hello of KindMeet

	maxMeetMembers    = 255
	maxPlanBytes      = 64
	introductionBytes = 2*maxIDBytes + maxClusterBytes + maxPlanBytes + 16 + maxMeetMembers*(maxIDBytes+2)
)

// Number is the myid in a ServerID, 0 if there is none.
func Number(id raft.ServerID) int {
	text, _, ok := strings.Cut(string(id), "-")
	n, err := strconv.Atoi(text)
	if !ok || err != nil || n < 1 || n > 255 {
		return 0
	}
	return n
}

// Anybody is the ServerID for Meet and Options.Resolve of whoever has a number.
func Anybody(number int) raft.ServerID { return raft.ServerID(strconv.Itoa(number) + "-") }

// Join sets the name of the cluster that this member belongs to from now on. Before, if
// Options.Cluster was empty, only KindMeet connections come about.
func (t *Transport) Join(cluster string) error {
	if cluster == "" || len(cluster) > maxClusterBytes {
		return fmt.Errorf("peer: the name of a cluster has 1 to %d bytes", maxClusterBytes)
	}
	t.cluster.Store(&cluster)
	return nil
}

// clusterName is "" while this member belongs to no cluster.
func (t *Transport) clusterName() string {
	if c := t.cluster.Load(); c != nil {
		return *c
	}
	return ""
}

// Meet asks who has a number: one attempt.
func (t *Transport) Meet(ctx context.Context, number int) (Introduction, error) {
	id := Anybody(number)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()
	raw, err := t.reach(ctx, id)
	if err != nil {
		return Introduction{}, err
	}
	defer raw.Close()
	defer context.AfterFunc(ctx, func() { raw.Close() })()
	f, body, _, err := t.hail(ctx, raw, id, KindMeet)
	if err == nil && f != frameIntroduction {
		err = errForeignFrame
	}
	var in Introduction
	if err == nil {
		in, err = decodeIntroduction(body)
	}
	if err == nil && (Number(in.ID) != number || in.Boot == t.o.Boot) {
		err = fmt.Errorf("server %s answers there: correct the server lines", in.ID)
	}
	if err != nil {
		return Introduction{}, fmt.Errorf("handshake with server %d: %w", number, err)
	}
	return in, nil
}

// introduce answers a hello of KindMeet.
func (t *Transport) introduce(nc net.Conn) error {
	in := t.o.Introduce()
	in.ID, in.Boot, in.Cluster = t.o.ID, t.o.Boot, t.clusterName()
	_, err := nc.Write(appendFrame(nil, frameIntroduction, func(b []byte) []byte { return appendIntroduction(b, &in) }))
	return err
}

func appendIntroduction(b []byte, in *Introduction) []byte {
	b = binary.BigEndian.AppendUint64(b, in.Boot)
	b = binary.BigEndian.AppendUint32(b, in.SilenceMs)
	b = appendText(b, string(in.ID), maxIDBytes)
	b = appendText(b, in.Cluster, maxClusterBytes)
	b = appendText(b, in.Plan, maxPlanBytes)
	members := in.Members[:min(len(in.Members), maxMeetMembers)]
	b = append(b, byte(len(members)))
	for _, m := range members {
		b = appendText(b, string(m), maxIDBytes)
	}
	return b
}

func decodeIntroduction(body []byte) (Introduction, error) {
	c := cursor{b: body}
	in := Introduction{Boot: c.u64(), SilenceMs: c.u32(), ID: raft.ServerID(c.text(maxIDBytes)), Cluster: c.text(maxClusterBytes), Plan: c.text(maxPlanBytes)}
	for n := c.u8(); n > 0 && !c.bad; n-- {
		in.Members = append(in.Members, raft.ServerID(c.text(maxIDBytes)))
	}
	if in.Boot == 0 || in.ID == "" || slices.Contains(in.Members, "") {
		c.bad = true
	}
	return in, c.end()
}
