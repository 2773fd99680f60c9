package peer

import "time"

// Every limit of the package. What can be set is in Options, with these as defaults.
const (
	// defaultTimeout is how long a member may take to answer a message of raft. Its main
	// loop answers, which may stand in a sync of its disk: too short a time breaks good
	// connections. A network that is silent is noticed earlier, see silenceTimeout.
	defaultTimeout = 10 * time.Second
	// defaultDialTimeout bounds a dial without its handshake. After a partition the next
	// attempt starts at most so much later.
	defaultDialTimeout = time.Second
	// rootsInterval is the time between two looks whom to trust, where that can change.
	rootsInterval = 5 * time.Second
	// defaultHandshakeTimeout is absolute: from the accept, or from the end of a dial, until
	// the last byte of the handshake, TLS included.
	defaultHandshakeTimeout = 5 * time.Second
	// defaultStallTimeout is how long the other side of a stream may leave a frame unread,
	// and how long a snapshot may make no progress.
	defaultStallTimeout = 30 * time.Second
	// defaultIdleTimeout closes connections for messages of raft that carry none. Followers
	// hold one to each other after an election, and need it only for the next.
	defaultIdleTimeout = time.Minute
	// defaultInstallTimeout bounds an InstallSnapshot from its last byte to the answer: the
	// other member reads it into its memory.
	defaultInstallTimeout = 10 * time.Minute
	// silenceTimeout is TCP_USER_TIMEOUT of connections for messages of raft: sent bytes
	// that nothing acknowledges for so long end the connection.
	silenceTimeout = 2 * time.Second
	// workingInterval is how often a member that installs a snapshot says so.
	workingInterval = time.Second

	// absentPatience is how long a request waits for a member that cannot be reached. It is far
	// longer than raft's longest pause, so that a member hardly ever comes back during one.
	absentPatience = time.Minute
	// absentInterval is how often such a request looks whether raft here still leads.
	absentInterval = 250 * time.Millisecond

	// defaultMaxInflight requests of a pipeline are on their way. raft packs all entries
	// that wait into the next request, so more in flight makes smaller requests.
	defaultMaxInflight = 4
	// defaultMaxEntryBytes bounds one log entry, and with it a frame.
	defaultMaxEntryBytes = 16 << 20
	// defaultMaxMessageBytes bounds a message of a Stream.
	defaultMaxMessageBytes = 4 << 20

	// maxMaxBytes is how large those two can be set: a frame has a length of 32 bits.
	maxMaxBytes = 1 << 30

	// splitBytes of entries go into one frame, or a single entry. raft asks for up to 64
	// entries of any size at once; in pieces of this size a heartbeat waits for one piece.
	splitBytes = 1 << 20
	// maxFrameEntries of a frame. raft's own limit is 1,024 per request.
	maxFrameEntries = 1024
	// chunkBytes of a snapshot go into one frame.
	chunkBytes = 256 << 10
	// growBytes is what is allocated for a frame before its bytes arrive.
	growBytes = 1 << 20
	// maxConfigurationBytes of a raft configuration, which a snapshot's header carries.
	maxConfigurationBytes = 64 << 10

	maxHelloBytes   = 512
	maxIDBytes      = 128
	maxClusterBytes = 64
	maxReasonBytes  = 200
	maxFailureBytes = 1 << 10 // the text of an error that raft answered with

	// maxLobby connections are in their handshake. When it is full, the oldest of the
	// address that has most of them has to go.
	maxLobby = 128
	// maxPeers other members are known at a time; those without a connection make room.
	maxPeers = 64
	// maxStreams may each other member have open to this one, of the kinds of the caller.
	maxStreams = 32
	// maxProbes and maxSnapshots may each other member have open to this one.
	maxProbes    = 8
	maxSnapshots = 1
	// maxSpooled snapshots are received at a time from all members together.
	maxSpooled = 2
	// maxAnswers of raft wait to be sent on a connection; when full it is not read further.
	maxAnswers = 64

	// probeAttempts follow each other, probePause doubling, while the other side takes a
	// connection and drops it: a process that dies, or one that just starts.
	probeAttempts = 6
	probePause    = 2 * time.Millisecond
	// probeTimeout bounds a look at another member on behalf of a third.
	probeTimeout = time.Second
	// carryYields is for how many turns of the scheduler the courier of a commit index lets
	// others go first. A turn is 0.2 µs on an idle machine, and as long as it takes on a busy
	// one. 0, 1 and 4 were alike in BenchmarkWriteThroughFollower and BenchmarkWritesAtOnce;
	// a timer, the other way to wait a moment, is late by up to a millisecond.
	carryYields = 1
	// acceptPause follows a failed accept, doubling up to maxAcceptPause.
	acceptPause    = 5 * time.Millisecond
	maxAcceptPause = time.Second
	// byeTimeout bounds the attempt to say that a connection ends in order.
	byeTimeout = 100 * time.Millisecond
	// noticeInterval is at least between two log lines about strangers.
	noticeInterval = 10 * time.Second
)
