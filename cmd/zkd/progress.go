package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"
)

// A progress shows a person how far a long command is, on a line that is written over, and
// tells everything else in lines of a log.
type progress struct {
	out      io.Writer
	terminal bool
	log      *slog.Logger
	now      func() time.Time
	shown    time.Time // when the last line was
	open     bool      // a line is to be written over
}

// The pause between two lines about the same file.
const (
	terminalPause = 100 * time.Millisecond
	logPause      = 5 * time.Second
)

func newProgress(out io.Writer) *progress {
	p := &progress{out: out, log: slog.New(slog.NewTextHandler(out, nil)), now: time.Now}
	if f, ok := out.(*os.File); ok {
		info, err := f.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

// file says how much of a file has been read. The end is always said.
func (p *progress) file(path string, done, size int64) {
	pause := logPause
	if p.terminal {
		pause = terminalPause
	}
	now := p.now()
	if done < size && now.Sub(p.shown) < pause {
		return
	}
	percent := int64(100)
	if size > 0 {
		percent = min(done*100/size, 100)
	}
	if done < size {
		p.shown = now
	}
	if !p.terminal {
		p.log.Info("reading", "file", path, "percent", percent)
		return
	}
	fmt.Fprintf(p.out, "\r\x1b[Kreading %s: %d %%", path, percent)
	p.open = true
	if done >= size {
		p.clear()
	}
}

// stage says what is being done.
func (p *progress) stage(what string) {
	if !p.terminal {
		p.log.Info(what)
		return
	}
	p.clear()
	fmt.Fprint(p.out, what, " …")
	p.open = true
}

// note says what an operator should know.
func (p *progress) note(what string) {
	if !p.terminal {
		p.log.Warn(what)
		return
	}
	p.clear()
	fmt.Fprintln(p.out, "note:", what)
}

// clear ends the line that would be written over.
func (p *progress) clear() {
	if p.open {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.open = false
	}
}
