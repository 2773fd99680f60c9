package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// barWidth is that of a progress bar in characters.
const barWidth = 30

// bar says how much of something has been done: on a terminal as a bar that is written over, else as
// a line of the log now and then. The end is always said. size is 0 if it is not known.
func (p *progress) bar(what string, done, size int64) {
	pause := logPause
	if p.terminal {
		pause = terminalPause
	}
	now := p.now()
	over := size > 0 && done >= size
	if !over && now.Sub(p.shown) < pause {
		return
	}
	p.shown = now
	percent := int64(0)
	if size > 0 {
		percent = min(done*100/size, 100)
	}
	if !p.terminal {
		p.log.Info(what, "percent", percent, "bytes", done)
		return
	}
	full := int(percent) * barWidth / 100
	fmt.Fprintf(p.out, "\r\x1b[K%s [%s%s] %3d %%  %s", what, strings.Repeat("#", full), strings.Repeat(".", barWidth-full), percent, humanBytes(done))
	p.open = true
	if over {
		p.clear()
	}
}

// follow shows a progress that somebody else makes, until stop is called.
func (p *progress) follow(what string, of func() (done, size int64)) (stop func()) {
	quit, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		t := time.NewTicker(terminalPause)
		defer t.Stop()
		for {
			select {
			case <-quit:
				return
			case <-t.C:
				if done, size := of(); done < size { // the end is for those who know that all is well
					p.bar(what, done, size)
				}
			}
		}
	}()
	return func() {
		close(quit)
		<-gone
		p.clear()
	}
}

// A countingReader tells of what is read, until it is detached.
type countingReader struct {
	io.Reader
	size int64
	what string
	next string // what is done when all has been read, "" if nothing

	mu   sync.Mutex
	p    *progress // guarded by mu; nil when detached
	done int64     // guarded by mu
}

func (r *countingReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done += int64(n)
	if r.p == nil {
		return n, err
	}
	if n > 0 {
		r.p.bar(r.what, r.done, r.size)
	}
	if r.next != "" && r.done >= r.size {
		r.p.stage(r.next)
		r.next = ""
	}
	return n, err
}

// detach ends the telling: whoever reads on does so in silence.
func (r *countingReader) detach() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.p = nil
}

// humanBytes is a number of bytes for people.
func humanBytes(n int64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n)/1024, 0
	for v >= 1024 && unit < len(units)-1 {
		v, unit = v/1024, unit+1
	}
	return fmt.Sprintf("%.1f %ciB", v, units[unit])
}
