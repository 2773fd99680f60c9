package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"
)

// An Option changes what Dial makes.
type Option func(*config)

// config is what options set; immutable after Dial.
type config struct {
	timeout          time.Duration
	connectTimeout   time.Duration // 0: timeout divided by the number of servers
	margin           float64       // of the timeout
	policy           SessionPolicy
	sessionID        int64
	password         []byte
	readOnly         bool
	legacy           bool
	auths            []*credential
	sasl             SASL
	tls              func() (*tls.Config, error)
	dial             func(ctx context.Context, network, addr string) (net.Conn, error)
	resolve          resolver
	tracer           Tracer
	retry            Backoff
	reconnect        Backoff
	inFlightBytes    int
	inFlightRequests int
	maxFrame         int
}

func defaultConfig() config {
	dialer := &net.Dialer{}
	return config{
		timeout: defaultTimeout, margin: 0.1, inFlightBytes: defaultInFlightBytes,
		inFlightRequests: defaultInFlightRequests, maxFrame: defaultMaxFrame,
		dial: dialer.DialContext, resolve: net.DefaultResolver.LookupHost,
		retry: retryAlways, reconnect: jittered,
	}
}

// check refuses what cannot work.
func (c *config) check() error {
	switch {
	case c.timeout < time.Millisecond || c.timeout > 1<<31*time.Millisecond-1:
		return fmt.Errorf("session timeout %v: it must be between 1 ms and 24 days", c.timeout)
	case c.margin < 0 || c.margin >= 1:
		return fmt.Errorf("margin %v: it is a fraction of the timeout, 0 or more and less than 1", c.margin)
	case c.inFlightBytes < 1 || c.inFlightRequests < 1 || c.maxFrame < 1:
		return errors.New("limits in bytes and requests must be at least 1")
	}
	return nil
}

// SessionPolicy says what follows when the server has ended the session.
type SessionPolicy int

// The policies.
const (
	// RenewSession goes on with a new session. The old one's ephemeral nodes are gone, its
	// watches end with ErrSessionExpired, Subscriptions go on with an EventReset.
	RenewSession SessionPolicy = iota
	// FailOnExpiry ends the client: everything fails with ErrSessionExpired from then on.
	FailOnExpiry
)

// WithTimeout asks for a session timeout, instead of 10 s. The server may grant another one.
// Short ones let others notice sooner that this client is gone, and cost the session when the
// network or the process pauses for as long.
func WithTimeout(d time.Duration) Option { return func(c *config) { c.timeout = d } }

// WithConnectTimeout bounds each attempt to connect, instead of the session timeout divided by
// the number of servers.
func WithConnectTimeout(d time.Duration) Option { return func(c *config) { c.connectTimeout = d } }

// WithMargin sets how much of the timeout the safe deadline keeps clear of it, instead of 0.1.
// It covers what clocks drift in one timeout and the time between asking Valid and acting.
func WithMargin(fraction float64) Option { return func(c *config) { c.margin = fraction } }

// WithSessionPolicy says what follows when the session has expired, instead of RenewSession.
func WithSessionPolicy(p SessionPolicy) Option { return func(c *config) { c.policy = p } }

// WithSession resumes a session by its id and password instead of asking for a new one.
func WithSession(id int64, password []byte) Option {
	return func(c *config) { c.sessionID, c.password = id, append([]byte(nil), password...) }
}

// WithReadOnly also accepts servers without a quorum, which answer reads from what they last
// knew. The client goes on looking for a read-write server and moves there by itself.
func WithReadOnly() Option { return func(c *config) { c.readOnly = true } }

// WithLegacyServer uses only operations that every server has known since 3.4: for a ClickHouse
// Keeper that hangs up on create2. Other servers say so politely, and need no option.
func WithLegacyServer() Option { return func(c *config) { c.legacy = true } }

// WithAuth authenticates every connection, for example with the scheme "digest" and
// "user:password". Refusal ends the client with ErrAuthFailed.
func WithAuth(scheme string, auth []byte) Option {
	return func(c *config) { c.auths = append(c.auths, newCredential(scheme, auth)) }
}

// WithSASL authenticates every connection by SASL, before anything else is sent. A server
// without SASL is not used.
func WithSASL(s SASL) Option { return func(c *config) { c.sasl = s } }

// WithTLS connects by TLS. The server's name is verified as it stands in the list of servers,
// unless conf.ServerName is set. nil is the zero configuration. For certificates that change see
// WithTLSFrom.
func WithTLS(conf *tls.Config) Option {
	return WithTLSFrom(func() (*tls.Config, error) { return conf, nil })
}

// WithTLSFrom connects by TLS and asks for the configuration before every attempt, so that
// renewed certificates are used without a restart. TLSFiles.Config is such a function.
func WithTLSFrom(conf func() (*tls.Config, error)) Option { return func(c *config) { c.tls = conf } }

// WithDialer replaces the way in which connections are opened: through a proxy, or in a test.
func WithDialer(dial func(ctx context.Context, network, addr string) (net.Conn, error)) Option {
	return func(c *config) { c.dial = dial }
}

// WithResolver replaces the way in which host names become addresses. It is asked before every
// attempt.
func WithResolver(resolve func(ctx context.Context, host string) ([]string, error)) Option {
	return func(c *config) { c.resolve = resolve }
}

// WithTracer has t told of every operation and every change of the connection. SlogTracer logs.
func WithTracer(t Tracer) Option { return func(c *config) { c.tracer = t } }

// WithRetry says how often, and after what delay, an operation is repeated whose connection was
// lost, instead of as long as its context lasts. It applies to reads and to writes that can be
// repeated; the wait for a new connection comes on top.
func WithRetry(b Backoff) Option { return func(c *config) { c.retry = b } }

// WithReconnect sets the delays between rounds of attempts to connect, instead of 20 ms doubling
// to 1 s, each with jitter.
func WithReconnect(b Backoff) Option { return func(c *config) { c.reconnect = b } }

// WithInFlight bounds what is under way without a reply, instead of 4 MiB and 16,384 requests.
// Callers beyond it wait.
func WithInFlight(bytes, requests int) Option {
	return func(c *config) { c.inFlightBytes, c.inFlightRequests = bytes, requests }
}

// WithMaxFrame bounds the replies that are accepted, instead of 64 MiB. A longer one fails its call
// with ErrMarshalling, and no other.
func WithMaxFrame(bytes int) Option { return func(c *config) { c.maxFrame = bytes } }

// A Backoff says how long to wait after that many failures in a row, from 1, and whether to try
// again at all. It is called from many goroutines. For WithReconnect the second result has no
// meaning: a client tries until it is closed.
type Backoff interface {
	Delay(failures int) (wait time.Duration, again bool)
}

// A BackoffFunc is a function that is a Backoff.
type BackoffFunc func(failures int) (time.Duration, bool)

// Delay calls f.
func (f BackoffFunc) Delay(failures int) (time.Duration, bool) { return f(failures) }

// RetryTimes repeats an operation at most n times.
func RetryTimes(n int) Backoff {
	return BackoffFunc(func(failures int) (time.Duration, bool) {
		wait, _ := retryAlways(failures)
		return wait, failures <= n
	})
}

// retryAlways repeats at once, and slower from the second time on.
var retryAlways BackoffFunc = func(failures int) (time.Duration, bool) {
	if failures <= 1 {
		return 0, true
	}
	return jittered(failures - 1)
}

// jittered doubles from backoffFirst to backoffMost and draws between half and all of it, so
// that the clients of a server that went down do not come back in step.
var jittered BackoffFunc = func(failures int) (time.Duration, bool) {
	d := backoffMost
	if failures < 16 {
		d = min(backoffFirst<<max(failures-1, 0), backoffMost)
	}
	return d/2 + rand.N(d/2+1), true
}

// A CallOption changes one call.
type CallOption struct {
	fresh, idempotent, parents, unique bool
	session                            *Session
}

// Fresh makes a read see everything that had been written, by anybody, when it was called: a
// sync and the read go out together. Without it a read may lag behind another client's write.
func Fresh() CallOption { return CallOption{fresh: true} }

// Idempotent allows a write to be repeated after a lost connection, where that is not done
// anyway: the caller says that doing it twice is as good as once. A repeated create that finds
// the node with the same data and version 0 has succeeded, a repeated delete that finds nothing,
// and a repeated set or setACL that finds what it wanted to write.
func Idempotent() CallOption { return CallOption{idempotent: true} }

// In binds a call to a session: it is not sent, or not sent again, once s is done.
func In(s *Session) CallOption { return CallOption{session: s} }

// MakeParents has a create make the missing parents first, as containers (which the server
// removes when they have become empty), or as persistent nodes where it knows no containers.
func MakeParents() CallOption { return CallOption{parents: true} }

// Unique tells ProtectedCreate that the name in the path contains a UUID already.
func Unique() CallOption { return CallOption{unique: true} }

func merge(opts []CallOption) CallOption {
	var all CallOption
	for _, o := range opts {
		all.fresh = all.fresh || o.fresh
		all.idempotent = all.idempotent || o.idempotent
		all.parents = all.parents || o.parents
		all.unique = all.unique || o.unique
		if o.session != nil {
			all.session = o.session
		}
	}
	return all
}
