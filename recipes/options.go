package recipes

import (
	"context"
	"os"
	"slices"
	"time"

	"github.com/zkd-project/zkd/client"
)

// An Option changes a recipe that is built on a queue or on an ephemeral node: locks,
// semaphores, elections.
type Option func(*config)

type config struct {
	format   Format
	acl      []client.ACL
	data     []byte
	unfair   bool
	jitter   time.Duration
	maxHold  time.Duration
	strict   bool
	failOnBr bool
	foreign  func(path string)
	onLost   func(ctx context.Context, l Lease, why error)

	// elections
	id        string
	selector  bool
	autoQueue bool
}

func newConfig(opts []Option) config {
	cfg := config{}
	for _, o := range opts {
		o(&cfg)
	}
	if cfg.data == nil {
		host, _ := os.Hostname() // nothing depends on it
		cfg.data = []byte(host)
	}
	return cfg
}

// WithFormat chooses whose node names are used, instead of Curator's.
func WithFormat(f Format) Option { return func(c *config) { c.format = f } }

// WithACL gives the nodes of the recipe this access control list, instead of an open one.
// Those who wait must be able to read each other's nodes.
func WithACL(acl []client.ACL) Option { return func(c *config) { c.acl = slices.Clone(acl) } }

// WithData is what is written into our node for operators to see, instead of the host's name.
func WithData(data []byte) Option { return func(c *config) { c.data = slices.Clone(data) } }

// Unfair makes everybody wait for one node instead of for the one before them in a queue. Who
// gets it next is chance, and N who wait cost N events and N-1 failed creates at each change:
// for a few contenders, of which any may go on at once. Clients of other libraries do not share
// this form.
func Unfair() Option { return func(c *config) { c.unfair = true } }

// Jitter spreads the contenders of the unfair form over up to d after each change, so that
// they do not all write at the same moment.
func Jitter(d time.Duration) Option { return func(c *config) { c.jitter = d } }

// MaxHold ends every hold after d with ErrMaxHold, so that a holder that never lets go is
// limited: what runs under its context is cancelled, OnLost runs, and the node goes.
func MaxHold(d time.Duration) Option { return func(c *config) { c.maxHold = d } }

// StrictOnDisconnect ends a hold as soon as the connection is lost, although the session may
// well be resumed. Without it the hold goes on until the session's safe deadline.
func StrictOnDisconnect() Option { return func(c *config) { c.strict = true } }

// FailWhenBroken makes a call that waits fail with ErrBroken when somebody deletes its node,
// instead of queueing up again.
func FailWhenBroken() Option { return func(c *config) { c.failOnBr = true } }

// WaitForForeign lets contenders with other node names be: instead of failing with a
// ForeignContenderError we wait for those that came before us, and f (if not nil) is told of
// each. It is right only where they wait for us in turn, for example kazoo with
// extra_lock_patterns=["-lock-"].
func WaitForForeign(f func(path string)) Option {
	return func(c *config) {
		if f == nil {
			f = func(string) {}
		}
		c.foreign = f
	}
}

// OnLost is called when a hold ends other than by Release, after Done is closed and, where the
// session lives, before the node is deleted: what has to be rolled back can still be written
// with Guard. The node waits for f to return until ctx ends, which is one session timeout. f runs
// in a goroutine of its own, and leaves Release to others.
func OnLost(f func(ctx context.Context, l Lease, why error)) Option {
	return func(c *config) { c.onLost = f }
}

// ElectionID is who we are in an election, instead of the host's name. It is what the others
// see as the leader.
func ElectionID(id string) Option { return func(c *config) { c.id = id } }

// JoinSelectors names the nodes of an election as Curator's LeaderSelector does, instead of as
// its LeaderLatch, so that we stand in one queue with selectors.
func JoinSelectors() Option { return func(c *config) { c.selector = true } }

// AutoRequeue makes Run enter the election again, at its tail, each time a turn is over.
func AutoRequeue() Option { return func(c *config) { c.autoQueue = true } }
