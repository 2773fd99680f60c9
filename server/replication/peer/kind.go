package peer

// A Kind says what a connection is for. It is fixed by the handshake: each kind takes frames
// of its own only.
type Kind uint8

// The kinds of the package itself. Their numbers are part of the protocol.
const (
	// KindRaft carries requests of raft in one direction and their answers in the other.
	// Each member dials one to each member that it has something to ask.
	KindRaft Kind = 1
	// KindSnapshot carries one InstallSnapshot.
	KindSnapshot Kind = 2
	// KindControl carries questions of one transport to another.
	KindControl Kind = 3
	// KindProbe ends after the handshake: its answer says that a process lives, and which.
	KindProbe Kind = 4

	// KindMeet ends after the handshake, too: its answer says who has the number that it is
	// meant for.
	KindMeet Kind = 5

	// FirstKind is the lowest that Handle and Open take: the caller's own kinds.
	FirstKind Kind = 16
)

// bufferBytes is the size of the read buffer, which bodies that are larger pass by.
func (k Kind) bufferBytes() int {
	if k == KindControl || k == KindProbe {
		return 1 << 10
	}
	return 64 << 10
}

// What each kind takes, by direction. Who dialed asks, who accepted answers.

func (t *Transport) acceptRaftRequest(f frameType) (int, bool) {
	switch f {
	case frameVote, framePreVote, frameTimeoutNow:
		return voteBytes, true
	case frameAppend:
		return appendHead + maxFrameEntries*entryBytes + max(splitBytes, t.o.MaxEntryBytes), true
	case frameBye:
		return 0, true
	default:
		return 0, false
	}
}

func acceptRaftAnswer(f frameType) (int, bool) {
	switch f {
	case frameReply:
		return replyBytes, true
	case frameFailure:
		return 8 + 2 + maxFailureBytes, true
	default:
		return 0, false
	}
}

func acceptSnapshotHeader(f frameType) (int, bool) { return installBytes, f == frameInstall }

func acceptSnapshotBody(f frameType) (int, bool) {
	switch f {
	case frameChunk:
		return chunkBytes, true
	case frameEnd:
		return endBytes, true
	default:
		return 0, false
	}
}

func acceptSnapshotAnswer(f frameType) (int, bool) {
	if f == frameWorking {
		return 0, true
	}
	return acceptRaftAnswer(f)
}

func acceptQuestion(f frameType) (int, bool) {
	switch f {
	case frameAsk:
		return askBytes, true
	case frameBye:
		return 0, true
	default:
		return 0, false
	}
}

func acceptSight(f frameType) (int, bool) { return sightBytes, f == frameSight }

func (t *Transport) acceptMessage(f frameType) (int, bool) {
	switch f {
	case frameMessage:
		return t.o.MaxMessageBytes, true
	case frameBye:
		return 0, true
	default:
		return 0, false
	}
}

func acceptHello(f frameType) (int, bool) { return maxHelloBytes, f == frameHello }

func acceptHelloAnswer(f frameType) (int, bool) {
	switch f {
	case frameWelcome:
		return welcomeBytes, true
	case frameRefusal:
		return refusalBytes, true
	case frameIntroduction:
		return introductionBytes, true
	default:
		return 0, false
	}
}
