package server

import "time"

// The bounds of the package that are not configured, with what happens beyond them. Those
// that are: config.Limits and config.Timing.HandshakeTimeout.
const (
	// readBufferSize is what one read from a socket takes at most; the buffer is taken from
	// a pool when the socket is readable and returned when its frames are served, so an
	// idle connection holds none.
	readBufferSize = 32 << 10

	// outSoftLimit is how many bytes of replies wait for a client before the server stops
	// serving its reads until some are written.
	outSoftLimit = 256 << 10

	// maxReplyBytes is the longest reply of a multiRead; beyond it the request fails. Other
	// reads are bounded by what a node holds.
	maxReplyBytes = 8 << 20

	// lingerDeadline is how long a connection that was ended by the server is read and
	// thrown away, so that the last reply is not lost to a reset.
	lingerDeadline = time.Second

	// createAttempts is how many session ids are drawn before a connect request fails.
	createAttempts = 8
)
