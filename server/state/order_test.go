package state

import (
	"testing"

	"github.com/zkd-project/zkd/server/acl"
	"github.com/zkd-project/zkd/wire"
)

// Each test here holds the order of the checks of one operation: every request breaks the
// rule that it is about and all later ones that can be broken together with it.

// orderRig is a machine with nodes that break rules.
func orderRig(t *testing.T) *rig {
	g := newRig(t)
	g.create("/open", 0)
	g.create("/open/child", 0)
	g.must(alice, wire.OpCreate, createWith("/closed", nothing))
	g.must(alice, wire.OpCreate, create("/eph", wire.FlagEphemeral))
	g.create("/closedkid", 0)
	g.create("/closedkid/kid", 0)
	g.must(alice, wire.OpSetACL, setACL("/closedkid", nothing, -1))
	// A quota that nothing may be added to.
	for _, p := range []string{"/zookeeper/quota/full", "/full", "/full/kid"} {
		g.create(p, 0)
	}
	g.create("/full/eph", wire.FlagEphemeral)
	g.must(alice, wire.OpCreate, &wire.CreateRequest{
		Path: "/zookeeper/quota/full/zookeeper_limits", ACL: acl.Open(),
		Data: []byte("count=-1,bytes=-1=;byteHardLimit=0;countHardLimit=0"),
	})
	g.create("/zookeeper/quota/full/zookeeper_stats", 0)
	g.h.Settings.EnforceQuota = true
	return g
}

// expect sends the request and compares the code. Whatever fails changes nothing.
func (g *rig) expect(t *testing.T, name string, op wire.OpCode, req record, want wire.Code) {
	t.Helper()
	before, zxid := g.contentDigest(), g.m.Zxid()
	r := g.do(alice, op, req)
	if r.Code != want || (want == wire.OK) != (r.Outcome == Applied) {
		t.Errorf("%s: %v, outcome %d, want %v", name, r.Code, r.Outcome, want)
	}
	if r.Zxid != zxid+1 {
		t.Errorf("%s: zxid %#x after %#x: every write takes one", name, r.Zxid, zxid)
	}
	if want != wire.OK && (g.contentDigest() != before || len(r.Events) > 0 || len(r.AppendBody(nil)) > 0) {
		t.Errorf("%s: a failed write has left something behind", name)
	}
}

func TestCreateChecksInZooKeepersOrder(t *testing.T) {
	g := orderRig(t)
	bad := list(31, "nosuch", "x")
	with := func(path string, flags int32, l []wire.ACL) *wire.CreateRequest {
		return &wire.CreateRequest{Path: path, Data: []byte("data"), ACL: l, Flags: flags}
	}
	for _, tt := range []struct {
		name string
		req  *wire.CreateRequest
		want wire.Code
	}{
		{"unknown flags", with("nopath", 7, bad), wire.BadArguments},
		{"negative flags", with("nopath", -1, bad), wire.BadArguments},
		{"TTL flags without a ttl", with("nopath", wire.FlagPersistentTTL, bad), wire.BadArguments},
		{"no slash", with("nopath", 0, bad), wire.BadArguments},
		{"NUL", with("/no\x00path", 0, bad), wire.BadArguments},
		{"malformed list, parent missing", with("/missing/x/", 0, bad), wire.InvalidACL},
		{"malformed list, node exists", with("/open", 0, bad), wire.InvalidACL},
		{"empty list", with("/open", 0, nil), wire.InvalidACL},
		{"parent missing, path invalid", with("/missing/.", 0, acl.Open()), wire.NoNode},
		{"parent missing, no leading slash", with("open/x", 0, acl.Open()), wire.NoNode},
		{"parent closed, path invalid", with("/closed/.", 0, acl.Open()), wire.NoAuth},
		{"parent closed, node exists", with("/closedkid/kid", 0, acl.Open()), wire.NoAuth},
		{"path invalid", with("/open/.", 0, acl.Open()), wire.BadArguments},
		{"path invalid under an ephemeral", with("/eph/..", 0, acl.Open()), wire.BadArguments},
		{"path ends with a slash", with("/open/", 0, acl.Open()), wire.BadArguments},
		{"empty component", with("//open", 0, acl.Open()), wire.BadArguments},
		{"control character", with("/open/\x01", 0, acl.Open()), wire.BadArguments},
		{"private use character", with("/open/\ue000", 0, acl.Open()), wire.BadArguments},
		{"malformed UTF-8", with("/open/\xff", 0, acl.Open()), wire.BadArguments},
		{"node exists, quota full", with("/full/kid", 0, acl.Open()), wire.NodeExists},
		{"root exists", with("/", 0, acl.Open()), wire.NodeExists},
		{"parent ephemeral, quota full", with("/full/eph/x", 0, acl.Open()), wire.NoChildrenForEphemerals},
		{"quota full", with("/full/new", 0, acl.Open()), wire.QuotaExceeded},
		{"all right", with("/open/new", 0, acl.Open()), wire.OK},
		{"again", with("/open/new", 0, acl.Open()), wire.NodeExists},
	} {
		g.expect(t, tt.name, wire.OpCreate, tt.req, tt.want)
	}
	g.h.Settings.ExtendedTypes = false
	g.expect(t, "TTL flags while off", wire.OpCreate, with("nopath", wire.FlagPersistentTTL, bad), wire.Unimplemented)
}

func TestCreateTTLChecksModeFirst(t *testing.T) {
	g := newRig(t)
	for _, tt := range []struct {
		name string
		req  *wire.CreateTTLRequest
		want wire.Code
	}{
		{"ttl of zero", createTTL("nopath", wire.FlagPersistentTTL, 0), wire.BadArguments},
		{"negative ttl", createTTL("nopath", wire.FlagPersistentTTL, -1), wire.BadArguments},
		{"ttl too long", createTTL("nopath", wire.FlagPersistentTTL, 0xffffffffff+1), wire.BadArguments},
		{"other flags with a ttl", createTTL("/a", wire.FlagPersistent, 5), wire.BadArguments},
		{"shortest", createTTL("/a", wire.FlagPersistentTTL, 1), wire.OK},
		{"longest", createTTL("/b-", wire.FlagPersistentSequentialTTL, 0xffffffffff), wire.OK},
	} {
		g.expect(t, tt.name, wire.OpCreateTTL, tt.req, tt.want)
	}
	g.h.Settings.ExtendedTypes = false
	g.expect(t, "while off", wire.OpCreateTTL, createTTL("nopath", wire.FlagPersistentTTL, 0), wire.Unimplemented)
}

func TestDeleteChecksInZooKeepersOrder(t *testing.T) {
	g := orderRig(t)
	for _, tt := range []struct {
		name, path string
		version    int32
		want       wire.Code
	}{
		{"no slash", "open", 9, wire.BadArguments},
		{"empty", "", 9, wire.BadArguments},
		{"NUL", "/open\x00", 9, wire.BadArguments},
		{"root", "/", 9, wire.BadArguments},
		{"/zookeeper", "/zookeeper", 9, wire.BadArguments},
		{"/zookeeper/quota", "/zookeeper/quota", 9, wire.BadArguments},
		{"/zookeeper/config", "/zookeeper/config", 9, wire.BadArguments},
		{"parent missing", "/missing/x", 9, wire.NoNode},
		{"parent closed, node missing", "/closed/x", 9, wire.NoAuth},
		{"parent closed, version wrong", "/closedkid/kid", 9, wire.NoAuth},
		{"node missing", "/open/missing", 9, wire.NoNode},
		{"odd path", "/open/", 9, wire.NoNode},
		{"version wrong, has children", "/open", 9, wire.BadVersion},
		{"has children", "/open", 0, wire.NotEmpty},
		{"all right", "/open/child", 0, wire.OK},
		{"any version", "/open", -1, wire.OK},
		{"own list does not matter", "/closed", -1, wire.OK},
	} {
		g.expect(t, tt.name, wire.OpDelete, del(tt.path, tt.version), tt.want)
	}
}

func TestSetDataChecksInZooKeepersOrder(t *testing.T) {
	g := orderRig(t)
	for _, tt := range []struct {
		name, path string
		version    int32
		want       wire.Code
	}{
		{"path invalid, missing", "/missing/", 9, wire.BadArguments},
		{"path empty", "", 9, wire.BadArguments},
		{"missing", "/missing", 9, wire.NoNode},
		{"closed, version wrong", "/closed", 9, wire.NoAuth},
		{"quota full, version wrong", "/full/kid", 9, wire.QuotaExceeded},
		{"version wrong", "/open", 9, wire.BadVersion},
		{"all right", "/open", 0, wire.OK},
		{"any version", "/open", -1, wire.OK},
		{"root", "/", 0, wire.OK},
		{"/zookeeper", "/zookeeper", -1, wire.OK},
		{"/zookeeper/config", "/zookeeper/config", -1, wire.NoAuth},
	} {
		g.expect(t, tt.name, wire.OpSetData, set(tt.path, "data", tt.version), tt.want)
	}
	g.ids = []wire.ID{acl.Super}
	g.expect(t, "/zookeeper/config as super", wire.OpSetData, set("/zookeeper/config", "data", -1), wire.OK)
}

func TestSetACLChecksInZooKeepersOrder(t *testing.T) {
	g := orderRig(t)
	bad := list(31, "nosuch", "x")
	for _, tt := range []struct {
		name string
		req  *wire.SetACLRequest
		want wire.Code
	}{
		{"path invalid", setACL("/missing/", bad, 9), wire.BadArguments},
		{"malformed list", setACL("/missing", bad, 9), wire.InvalidACL},
		{"auth without an identity", setACL("/missing", list(31, "auth", ""), 9), wire.InvalidACL},
		{"missing", setACL("/missing", worldRead, 9), wire.NoNode},
		{"closed", setACL("/closed", worldRead, 9), wire.NoAuth},
		{"version wrong", setACL("/open", worldRead, 9), wire.BadVersion},
		{"all right", setACL("/open", list(wire.PermAdmin, "world", "anyone"), 0), wire.OK},
		{"version is that of the list", setACL("/open", acl.Open(), 1), wire.OK},
		{"any version", setACL("/open", acl.Open(), -1), wire.OK},
	} {
		g.expect(t, tt.name, wire.OpSetACL, tt.req, tt.want)
	}
}

func TestCheckChecksInZooKeepersOrder(t *testing.T) {
	g := orderRig(t)
	for _, tt := range []struct {
		name, path string
		version    int32
		want       wire.Code
	}{
		{"path invalid", "/missing/", 9, wire.BadArguments},
		{"path empty", "", 9, wire.BadArguments},
		{"missing, any version", "/missing", -1, wire.NoNode},
		{"closed", "/closed", 9, wire.NoAuth},
		{"version wrong", "/open", 9, wire.BadVersion},
		{"any version", "/open", -1, wire.OK},
		{"all right", "/open", 0, wire.OK},
	} {
		r := g.multi(alice, opCheck(tt.path, tt.version))
		if got := r.Multi[0].Code; got != tt.want || r.Code != wire.OK {
			t.Errorf("%s: %v in the entry, %v in the header", tt.name, got, r.Code)
		}
	}
}

func TestReconfigAnswersAsAStandaloneServer(t *testing.T) {
	g := newRig(t)
	g.expect(t, "off", wire.OpReconfig, &wire.ReconfigRequest{CurConfigID: -1}, wire.ReconfigDisabled)
	g.h.Settings.Reconfig = true
	g.expect(t, "on", wire.OpReconfig, &wire.ReconfigRequest{CurConfigID: -1}, wire.Unimplemented)
}

func TestReconfigChecksInZooKeepersOrder(t *testing.T) {
	g := ensembleRig(t)
	g.ids = nil
	version := g.current().Version
	const tooFew, joiner = "2,3", "server.4=h:5:6;7"
	for _, tt := range []struct {
		name string
		req  reconfigBody
		want wire.Code
	}{
		{"version wrong, text malformed", reconfigBody{joining: "x", version: version + 1}, wire.BadVersion},
		{"version zero", reconfigBody{version: 0}, wire.BadVersion},
		{"version below -1", reconfigBody{version: -2}, wire.BadVersion},
		{"joining malformed", reconfigBody{joining: "x", leaving: tooFew, version: -1}, wire.BadArguments},
		{"leaving malformed", reconfigBody{leaving: "x", version: version}, wire.BadArguments},
		{"address taken", reconfigBody{joining: "server.4=a:1:2;3", leaving: tooFew, version: -1}, wire.BadArguments},
		{"too few", reconfigBody{leaving: tooFew, version: -1}, wire.BadArguments},
		{"whole malformed", reconfigBody{whole: "x", version: -1}, wire.BadArguments},
		{"whole empty", reconfigBody{emptyWhole: true, version: -1}, wire.BadArguments},
		{"whole with one", reconfigBody{whole: "server.1=a:1:2", version: -1}, wire.BadArguments},
		{"no permission, no change", reconfigBody{version: -1}, wire.NoAuth},
		{"no permission, change", reconfigBody{joining: joiner, version: version}, wire.NoAuth},
		{"the lists do not count beside the whole", reconfigBody{joining: "x", leaving: "x", whole: ensembles[2], version: -1}, wire.NoAuth},
	} {
		g.expect(t, tt.name, wire.OpReconfig, tt.req, tt.want)
	}
	g.h.Settings.Reconfig = false
	g.expect(t, "off", wire.OpReconfig, reconfigBody{joining: "x", version: 0}, wire.ReconfigDisabled)
	g.h.Settings.Reconfig = true
	g.ids = []wire.ID{acl.Super}
	if r := g.do(alice, wire.OpReconfig, reconfigBody{joining: joiner, version: version}); r.Code != wire.OK || !r.Deferred {
		t.Fatalf("as super: %v", r.Code)
	}
	g.ids = nil
	g.expect(t, "in progress, version wrong", wire.OpReconfig, reconfigBody{joining: "x", version: 0}, wire.ReconfigInProgress)
	g.h.Settings.Reconfig = false
	g.expect(t, "off while in progress", wire.OpReconfig, reconfigBody{}, wire.ReconfigDisabled)
}

func TestAnyoneMayReconfigWhereACLsAreSkipped(t *testing.T) {
	g := ensembleRig(t)
	g.ids = nil
	g.h.Settings.ACL.SkipACL = true
	if r := g.ask("server.4=h:5:6;7", ""); r.Code != wire.OK || !r.Deferred {
		t.Errorf("%v", r.Code)
	}
}

func TestWhoMayWriteTheConfigurationMayReconfig(t *testing.T) {
	g := ensembleRig(t)
	g.must(alice, wire.OpSetACL, setACL("/zookeeper/config", bobsOwn, -1))
	g.ids = []wire.ID{bobsID}
	if r := g.ask("server.4=h:5:6;7", ""); r.Code != wire.OK || !r.Deferred {
		t.Errorf("%v", r.Code)
	}
}

func TestReadsCheckInZooKeepersOrder(t *testing.T) {
	g := orderRig(t)
	g.must(alice, wire.OpCreate, createWith("/admin", list(wire.PermAdmin, "world", "anyone")))
	reads := map[string]func(b []byte, path string, ids []wire.ID) ([]byte, wire.Code){
		"getData": g.m.GetData, "exists": g.m.Exists, "getACL": g.m.GetACL, "getChildren": g.m.GetChildren,
		"getChildren2": g.m.GetChildren2, "getAllChildrenNumber": g.m.GetAllChildrenNumber,
	}
	for name, read := range reads {
		nul := wire.NoNode
		if name == "exists" {
			nul = wire.BadArguments
		}
		admin := wire.NoAuth
		if name == "getACL" {
			admin = wire.OK
		}
		for _, tt := range []struct {
			path string
			want wire.Code
		}{
			{"/missing", wire.NoNode},
			{"/open/", wire.NoNode},
			{"open", wire.NoNode},
			{"//", wire.NoNode},
			{"/open\x00", nul},
			{"/closed", wire.NoAuth},
			{"/closed/x", wire.NoNode},
			{"/admin", admin},
			{"", wire.OK},
			{"/", wire.OK},
			{"/open", wire.OK},
		} {
			b, code := read([]byte("head"), tt.path, nil)
			if code != tt.want {
				t.Errorf("%s %q gives %v, want %v", name, tt.path, code, tt.want)
			}
			if string(b[:4]) != "head" || (code == wire.OK) != (len(b) > 4) {
				t.Errorf("%s %q appends %q with %v", name, tt.path, b, code)
			}
		}
	}
}
