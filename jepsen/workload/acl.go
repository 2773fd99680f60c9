package workload

import (
	"context"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/jepsen/check"
	"github.com/zkd-project/zkd/jepsen/history"
	"github.com/zkd-project/zkd/jepsen/wire"
	proto "github.com/zkd-project/zkd/wire"
)

const (
	aclSlots = 5
	aclAdmin = "admin"
	aclVault = "/acl/vault"
)

// aclUsers are the identities; anonymous has none.
var aclUsers = []string{"ann", "bob", "anonymous"}

// aclWorkload has nodes whose lists change, an administrator and clients of several identities
// that try everything.
func aclWorkload() Workload {
	return Workload{
		Name:     "acl",
		Doc:      "every operation by every identity on nodes whose lists change: permitted or refused as the list says, and no planted secret in what others receive",
		Setup:    setupACL,
		Run:      runACL,
		Final:    func(context.Context, *Env) error { return nil },
		Checkers: []check.Checker{check.ACL},
	}
}

// password of an identity.
func password(user string) string { return "password-of-" + user }

// hash is what stands for the password in lists. SHA-1 is what ZooKeeper's scheme digest has.
func hash(user string) string {
	sum := sha1.Sum([]byte(user + ":" + password(user)))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// Digest is how a configuration names an identity.
func Digest(user string) string { return user + ":" + hash(user) }

// Identify has a connection prove an identity, before whatever is sent next.
func Identify(c *wire.Conn, user string) {
	packet := proto.AuthPacket{Scheme: "digest", Auth: []byte(user + ":" + password(user))}
	c.Send(proto.OpAuth, packet.Append(nil))
}

// as gives a client an identity, on every connection, and has it look for secrets.
func as(user string, see func(b []byte)) procOption {
	return func(o *wire.Options) {
		o.OnFrame = func(_ *wire.Conn, b []byte) { see(b) }
		if user != "anonymous" {
			o.OnOpen = func(c *wire.Conn) { Identify(c, user) }
		}
	}
}

// An aclSpec is a list as the checker reads it: WHO:PERMISSIONS,…
type aclSpec string

func (s aclSpec) list() (list []proto.ACL) {
	for entry := range strings.SplitSeq(string(s), ",") {
		var perms int32
		who, text, _ := strings.Cut(entry, ":")
		_, _ = fmt.Sscan(text, &perms)
		id := proto.ID{Scheme: "world", ID: "anyone"}
		if who != "world" {
			id = proto.ID{Scheme: "digest", ID: who + ":" + hash(who)}
		}
		list = append(list, proto.ACL{Perms: perms, ID: id})
	}
	return list
}

// drawSpec draws a list. The administrator may always do everything.
func (p *Proc) drawSpec() aclSpec {
	spec := fmt.Sprintf("%s:%d", aclAdmin, proto.PermAll)
	for _, who := range []string{"world", "ann", "bob"} {
		if p.Rand.IntN(3) > 0 {
			spec += fmt.Sprintf(",%s:%d", who, 1+p.Rand.IntN(int(proto.PermAll)))
		}
	}
	return aclSpec(spec)
}

// lists is what the clients of the workload share.
type aclRun struct {
	generations [aclSlots]atomic.Int64
}

func (r *aclRun) node(slot int) string {
	return fmt.Sprintf("/acl/%d-%d", slot, r.generations[slot].Load())
}

func setupACL(ctx context.Context, e *Env) error { return e.Root(ctx, "/acl") }

func runACL(ctx context.Context, e *Env) {
	var wg sync.WaitGroup
	r := &aclRun{}
	admin := e.NewProc(0, as(aclAdmin, func([]byte) {}))
	wg.Go(func() {
		defer admin.Close()
		admin.administer(ctx, r)
	})
	vault := e.NewProc(0, as(aclAdmin, func([]byte) {}))
	wg.Go(func() {
		defer vault.Close()
		vault.fillVault(ctx)
	})
	for _, user := range append(aclUsers, aclUsers...) {
		w := &witness{user: user, e: e, seen: map[string]bool{}}
		p := e.NewProc(0, as(user, w.look))
		p.note = user
		wg.Go(func() {
			defer p.Close()
			p.probeAll(ctx, r)
		})
	}
	wg.Wait()
}

// secrets are words that name the node that hides them.
var secrets = regexp.MustCompile(`secret-([0-9]+-[0-9]+|vault)-[0-9a-z]+`)

// A witness looks for secrets in everything that a client receives. Its client's connections
// follow each other, so it needs no lock.
type witness struct {
	user string
	e    *Env
	seen map[string]bool
}

func (w *witness) look(b []byte) {
	for _, m := range secrets.FindAllSubmatch(b, -1) {
		word := string(m[0])
		if !w.seen[word] {
			w.seen[word] = true
			w.e.Rec.Add(history.Op{Begin: w.e.Rec.Now(), Kind: history.Info, F: "seen", Key: "/acl/" + string(m[1]), Value: word, Note: w.user})
		}
	}
}

// administer makes the nodes, changes their lists, and gives one up whose list is not known.
func (p *Proc) administer(ctx context.Context, r *aclRun) {
	made := [aclSlots]bool{}
	for n := 0; ctx.Err() == nil; n++ {
		slot := p.Rand.IntN(aclSlots)
		node := r.node(slot)
		switch k := p.Rand.IntN(10); {
		case !made[slot]:
			made[slot] = p.makeSecret(ctx, node)
			if !made[slot] {
				r.generations[slot].Add(1)
			}
		case k < 4:
			if o := p.setACL(ctx, node, p.drawSpec()); o.Kind == history.Unknown {
				r.generations[slot].Add(1)
				made[slot] = false
			}
		case k < 5: // a fresh secret from time to time
			r.generations[slot].Add(1)
			made[slot] = false
		default:
			p.Set(ctx, node, secretOf(node, "data"), -1)
		}
		if p.Rand.IntN(40) == 0 {
			_, _ = p.Move(ctx, 1+p.Rand.IntN(p.e.Servers))
		}
		Pause(ctx, time.Duration(p.Rand.IntN(15))*time.Millisecond)
	}
}

func secretOf(node, what string) string {
	return "secret-" + strings.TrimPrefix(node, "/acl/") + "-" + what
}

// makeSecret makes a node with a secret in its data and one in the name of a child.
func (p *Proc) makeSecret(ctx context.Context, node string) bool {
	spec := p.drawSpec()
	o := p.createAs(ctx, "acl-create", node, secretOf(node, "data"), spec)
	if o.Kind != history.OK || o.Code != 0 {
		return false
	}
	p.createAs(ctx, "create", node+"/"+secretOf(node, "child"), "", aclSpec("admin:31"))
	return true
}

func (p *Proc) createAs(ctx context.Context, f, path, data string, spec aclSpec) history.Op {
	r := proto.CreateRequest{Path: path, Data: []byte(data), ACL: spec.list()}
	line := history.Op{F: f, Key: path, Value: data}
	if f == "acl-create" {
		line.Value = string(spec)
	}
	o, d, ok := p.do(ctx, line, proto.OpCreate, r.Append(nil))
	return p.record(o, &d, ok)
}

func (p *Proc) setACL(ctx context.Context, path string, spec aclSpec) history.Op {
	r := proto.SetACLRequest{Path: path, ACL: spec.list(), Version: -1}
	o, d, ok := p.do(ctx, history.Op{F: "acl-set", Key: path, Value: string(spec)}, proto.OpSetACL, r.Append(nil))
	return p.record(o, &d, ok)
}

// fillVault creates and deletes nodes whose very names only the administrator may know.
func (p *Proc) fillVault(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		if n%200 == 0 {
			p.createAs(ctx, "acl-create", aclVault, "", "admin:31")
		}
		path := fmt.Sprintf("%s/secret-vault-%d", aclVault, n)
		p.createAs(ctx, "create", path, "", "admin:31")
		p.Delete(ctx, path, -1)
		Pause(ctx, time.Duration(10+p.Rand.IntN(30))*time.Millisecond)
	}
}
