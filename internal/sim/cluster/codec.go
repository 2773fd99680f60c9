package cluster

import (
	"fmt"

	"github.com/zkd-project/zkd/wire"
)

// worldACL lets everybody do everything.
var worldACL = []wire.ACL{{Perms: 31, ID: wire.ID{Scheme: "world", ID: "anyone"}}}

// encode makes the body of a request.
func encode(op Op) []byte {
	switch op.Code {
	case wire.OpCreate2:
		r := wire.CreateRequest{Path: op.Path, Data: []byte(op.Data), ACL: worldACL, Flags: op.Flags}
		return r.Append(nil)
	case wire.OpDelete:
		r := wire.DeleteRequest{Path: op.Path, Version: op.Version}
		return r.Append(nil)
	case wire.OpSetData:
		r := wire.SetDataRequest{Path: op.Path, Data: []byte(op.Data), Version: op.Version}
		return r.Append(nil)
	case wire.OpGetData, wire.OpExists, wire.OpGetChildren2:
		r := wire.PathWatchRequest{Path: op.Path, Watch: op.Watch}
		return r.Append(nil)
	case wire.OpAddWatch:
		r := wire.AddWatchRequest{Path: op.Path, Mode: op.Flags}
		return r.Append(nil)
	case wire.OpSync:
		r := wire.PathRequest{Path: op.Path}
		return r.Append(nil)
	case wire.OpMulti, wire.OpMultiRead:
		return encodeParts(op)
	case wire.OpReconfig:
		return encodeReconfig(op)
	case wire.OpCloseSession:
		return nil
	}
	panic(fmt.Sprintf("the simulated client does not send %v", op.Code))
}

// decode takes the body of a reply apart.
func decode(op Op, r *Result, d *wire.Decoder) error {
	switch op.Code {
	case wire.OpCreate2:
		r.Path = d.String()
		r.stat(d)
	case wire.OpSetData, wire.OpExists:
		r.stat(d)
	case wire.OpGetData:
		r.Data = string(d.Buffer())
		r.stat(d)
	case wire.OpGetChildren2:
		r.Children = d.Strings()
		r.stat(d)
	case wire.OpMulti, wire.OpMultiRead:
		decodeParts(op, r, d)
	}
	return d.Err()
}

func (r *Result) stat(d *wire.Decoder) {
	s := d.Stat()
	r.Version, r.Czxid, r.Mzxid, r.Pzxid, r.Owner = s.Version, s.Czxid, s.Mzxid, s.Pzxid, s.EphemeralOwner
}
