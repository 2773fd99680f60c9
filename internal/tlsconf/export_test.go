package tlsconf

// PollNow lets the next handshake look at the files, however short ago the last one was.
func (p *Peer) PollNow() { p.lastPoll.Store(0) }
