package peer

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// AppendEntriesPipeline implements raft.Transport.
func (t *Transport) AppendEntriesPipeline(id raft.ServerID, _ raft.ServerAddress) (raft.AppendPipeline, error) {
	p, err := t.peer(id)
	if err != nil {
		return nil, err
	}
	if _, err := p.link(t.ctx, lineRaft); err != nil {
		return nil, err
	}
	l := &pipeline{
		p:      p,
		room:   make(chan struct{}, t.o.MaxInflight),
		queue:  make(chan *appendFuture, t.o.MaxInflight),
		ready:  make(chan raft.AppendFuture),
		closed: make(chan struct{}),
	}
	if !t.spawn(l.deliver) {
		return nil, ErrClosed
	}
	return l, nil
}

// A pipeline has several requests of raft on their way. It uses the link that everything
// else uses, and the next one when that breaks: raft, whose requests in flight have failed
// then, gives the pipeline up, but one that was idle goes on. raft would lose the first
// request after a reconnect otherwise, and not notice until CommitTimeout.
//
// Requests are sent by one goroutine of raft, delivered by deliver, in the same order.
type pipeline struct {
	p      *peer
	room   chan struct{}          // a token per request that has no answer yet
	queue  chan *appendFuture     // those requests; room bounds it
	ready  chan raft.AppendFuture // to raft
	once   sync.Once
	closed chan struct{}
}

// AppendEntries implements raft.AppendPipeline. It waits while MaxInflight requests have no
// answer: raft gathers entries for the next one meanwhile.
func (l *pipeline) AppendEntries(args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	select {
	case <-l.closed:
		return nil, raft.ErrPipelineShutdown
	default:
	}
	select {
	case l.room <- struct{}{}:
	case <-l.closed:
		return nil, raft.ErrPipelineShutdown
	case <-l.p.t.ctx.Done():
		return nil, ErrClosed
	}
	f := &appendFuture{start: time.Now(), args: args, resp: resp, done: make(chan struct{})}
	s, err := l.p.appendEntries(args)
	if err != nil {
		<-l.room
		return nil, err
	}
	f.sending = s
	l.queue <- f
	return f, nil
}

// deliver waits for the answers in turn and hands the requests back to raft. A failed one
// goes back as well: raft finds no success in it and gives the pipeline up. (raft counts it
// as a contact with the follower, which delays the end of its lease by one lease at most.)
func (l *pipeline) deliver() {
	timer := time.NewTimer(l.p.t.o.Timeout)
	defer timer.Stop()
	for {
		var f *appendFuture
		select {
		case f = <-l.queue:
		case <-l.closed:
			return
		case <-l.p.t.ctx.Done():
			return
		}
		timer.Reset(l.p.t.o.Timeout)
		*f.resp, f.err = f.sending.wait(timer.C)
		<-l.room
		close(f.done)
		select {
		case l.ready <- f:
		case <-l.closed:
			return
		case <-l.p.t.ctx.Done():
			return
		}
	}
}

// Consumer implements raft.AppendPipeline.
func (l *pipeline) Consumer() <-chan raft.AppendFuture { return l.ready }

// Close implements raft.AppendPipeline. What is on its way may still be done by the follower,
// nobody hears of it.
func (l *pipeline) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// An appendFuture is a request of a pipeline.
type appendFuture struct {
	start   time.Time
	args    *raft.AppendEntriesRequest
	resp    *raft.AppendEntriesResponse
	sending *sending

	err  error         // set before done is closed
	done chan struct{} // closed when the answer is there
}

// Error implements raft.Future.
func (f *appendFuture) Error() error {
	<-f.done
	return f.err
}

// Start implements raft.AppendFuture.
func (f *appendFuture) Start() time.Time { return f.start }

// Request implements raft.AppendFuture.
func (f *appendFuture) Request() *raft.AppendEntriesRequest { return f.args }

// Response implements raft.AppendFuture.
func (f *appendFuture) Response() *raft.AppendEntriesResponse { return f.resp }
