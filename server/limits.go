package server

import "time"

// The bounds of the package that are not configured, with what happens beyond them. Those
// that are: config.Config, from HandshakeTimeoutMs to Throttle.
const (
	// readBufferSize is what one read from a socket takes at most.
	readBufferSize = 32 << 10

	// smallReadBuffer is what a TLS connection holds to be read into, and what the buffer of
	// a large frame starts with.
	smallReadBuffer = 4 << 10

	// outSoftLimit is how many bytes of replies wait for a client before the server stops
	// serving its reads until some are written.
	outSoftLimit = 256 << 10

	// outBufferSize is what a buffer for replies starts with, outBufferMax is how large one
	// may be to go back to the pool.
	outBufferSize = 4 << 10
	outBufferMax  = 64 << 10

	// tlsWriteStep is how many bytes a slow client must take to be given more time.
	tlsWriteStep = 64 << 10

	// maxReplyBytes is the longest reply of a multiRead; beyond it the request fails. Other
	// reads are bounded by what a node holds.
	maxReplyBytes = 8 << 20

	// maxIdentityBytes is how long the identities of a connection may be, all together: they
	// travel with each of its writes. An auth packet beyond it fails, as one that is wrong.
	maxIdentityBytes = 16 << 10

	// shortList is how many entries an access control list may have to be judged anew for each
	// event.
	shortList = 16

	// superPenalty is how long a wrong password for the super user holds its connection up.
	superPenalty = time.Second

	// maxPooledQueue is how many entries an empty pending queue may have had to go back to
	// the pool.
	maxPooledQueue = 1024

	// lingerDeadline is how long a connection that was ended by the server is read and
	// thrown away, so that the last reply is not lost to a reset.
	lingerDeadline = time.Second

	// createAttempts is how many session ids are drawn before a connect request fails.
	createAttempts = 8
	// handOverTimeout bounds the attempt to give the leadership away before a stop.
	handOverTimeout = time.Second

	// maxQuotasLogged is how many exceeded quotas are logged in a minute, the others are not;
	// maxLoggedPath is how many bytes of the path of each.
	maxQuotasLogged = 1000
	maxLoggedPath   = 256

	// maxReapList is how many container and TTL nodes one look at the tree returns at most.
	maxReapList = 100_000
)
