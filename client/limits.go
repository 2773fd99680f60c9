package client

import (
	"math"
	"time"
)

// Every bound of the package that is not an option, or the default of one.
const (
	// defaultTimeout is the session timeout that is asked for. The server may grant another.
	defaultTimeout = 10 * time.Second

	// defaultInFlightBytes bounds the request frames that have no reply yet, sent or not. A
	// caller above it waits. A larger single request passes alone.
	defaultInFlightBytes = 4 << 20

	// defaultInFlightRequests bounds their number, because a reply can be much larger than
	// its request.
	defaultInFlightRequests = 16 << 10

	// defaultMaxFrame is the longest reply that is accepted, in bytes. A directory of a
	// million children takes some 30 MiB. What a length promises is not allocated until it
	// arrives.
	defaultMaxFrame = 64 << 20

	// defaultQueue is how many events wait for a reader of a Subscription. Beyond it the
	// reader gets ErrLagged in their place.
	defaultQueue = 64 << 10

	// rewatchBytes is the longest setWatches frame, as in Java (SET_WATCHES_MAX_LENGTH). A
	// server with jute.maxbuffer at its default takes eight times as much.
	rewatchBytes = 128 << 10

	// readBufferBytes is the size of a connection's read buffer; a longer frame gets its own.
	readBufferBytes = 64 << 10

	// writeBatchBytes is how much the writer takes from the queue at once. The copy is made
	// under the lock, so it must be short.
	writeBatchBytes = 64 << 10

	// keepFrameBytes is the largest buffer that goes back into a pool.
	keepFrameBytes = 64 << 10

	// maxPingInterval is the longest silence before a ping, whatever the timeout, as in Java:
	// a dead server is noticed, and firewalls keep the connection in mind.
	maxPingInterval = 10 * time.Second

	// minConnectTimeout bounds one attempt from below, however many servers share the timeout.
	minConnectTimeout = 500 * time.Millisecond

	// backoffFirst and backoffMost are the delays between rounds of attempts; each is drawn
	// between half of it and all of it.
	backoffFirst = 20 * time.Millisecond
	backoffMost  = time.Second

	// steadyAfter is how long a connection must live for the next loss to be retried at once:
	// a server that cuts every connection must not be dialled in a tight loop.
	steadyAfter = time.Second

	// probeFirst and probeMost are the delays between searches for a read-write server while
	// connected to a read-only one, and probeTimeout bounds one question.
	probeFirst   = 100 * time.Millisecond
	probeMost    = 30 * time.Second
	probeTimeout = 2 * time.Second

	// maxSASLSteps bounds the exchange with a server that asks for ever.
	maxSASLSteps = 16

	// lackMemory is how long it is remembered that a server does not know an operation.
	lackMemory = 10 * time.Minute

	// largeTries is how often a request beyond the usual jute.maxbuffer is sent: each time may
	// cost everybody the connection.
	largeTries = 3

	// maxXid is where the numbers of requests start again at 1, as in Java.
	maxXid = math.MaxInt32
)
