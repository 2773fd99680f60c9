package history

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"
)

// A Kind says what became of an operation, or what else a line records.
type Kind string

// The kinds.
const (
	OK      Kind = "ok"      // answered; Code may still be an error of ZooKeeper's, which is an answer
	Fail    Kind = "fail"    // certainly not done
	Unknown Kind = "unknown" // sent, never answered: done or not
	Event   Kind = "event"   // a watch event
	Info    Kind = "info"    // connections, sessions and what a client believes
)

// A Stat is what a reply said of a node.
type Stat struct {
	Czxid   int64 `json:"c"`
	Mzxid   int64 `json:"m"`
	Pzxid   int64 `json:"p"`
	Version int32 `json:"v"`
	Owner   int64 `json:"o,omitempty"`
}

// An Op is one line of a history. Fields that an operation has no use for are zero.
type Op struct {
	Begin   int64  `json:"t"`   // when the request was handed to the socket
	End     int64  `json:"end"` // when the reply was read, or the operation given up
	Kind    Kind   `json:"type"`
	F       string `json:"op"`
	Proc    int    `json:"proc"`
	Session int64  `json:"session,omitempty"`
	Conn    int64  `json:"conn,omitempty"` // number of the connection, over all clients
	Node    int    `json:"node,omitempty"`
	Xid     int32  `json:"xid,omitempty"`
	Frame   int64  `json:"frame,omitempty"` // place of the reply among the frames of its connection
	Zxid    int64  `json:"zxid,omitempty"`  // of the reply header
	Code    int32  `json:"err,omitempty"`
	Key     string `json:"key,omitempty"`
	Value   string `json:"value,omitempty"` // what was written, or else read
	Arg     int64  `json:"arg,omitempty"`   // the expected version, the type of an event …
	Stat    *Stat  `json:"stat,omitempty"`
	// Parts are the operations of a multi or multi-read, or the children of a list as keys.
	Parts []Part `json:"parts,omitempty"`
	Note  string `json:"note,omitempty"`
}

// A Part is one operation of a multi, or one child of a list.
type Part struct {
	Key     string `json:"k"`
	Value   string `json:"x,omitempty"`
	Version int32  `json:"v,omitempty"`
	Mzxid   int64  `json:"m,omitempty"`
}

// String names the operation as a violation shows it.
func (o *Op) String() string {
	s := fmt.Sprintf("%s %s %s=%q proc %d session 0x%x conn %d node %d, %.6f–%.6f s", o.Kind, o.F, o.Key, o.Value, o.Proc,
		uint64(o.Session), o.Conn, o.Node, float64(o.Begin)/1e9, float64(o.End)/1e9)
	if o.Kind == OK {
		s += fmt.Sprintf(", zxid 0x%x, code %d", o.Zxid, o.Code)
	}
	if o.Stat != nil {
		s += fmt.Sprintf(", version %d mzxid 0x%x", o.Stat.Version, o.Stat.Mzxid)
	}
	return s
}

// A Recorder takes operations from any goroutine.
type Recorder struct {
	start time.Time

	mu  sync.Mutex
	ops []Op          // guarded by mu
	enc *json.Encoder // guarded by mu; nil: nothing is written
	err error         // guarded by mu: the first failure to write
}

// NewRecorder writes lines to w as they come, unless w is nil. The clock starts now.
func NewRecorder(w io.Writer) *Recorder {
	r := &Recorder{start: time.Now()}
	if w != nil {
		r.enc = json.NewEncoder(w)
	}
	return r
}

// Start is where the clock of the run begins.
func (r *Recorder) Start() time.Time { return r.start }

// Now is the time on the clock of the run.
func (r *Recorder) Now() int64 { return int64(time.Since(r.start)) }

// At is a time on the clock of the run; 0 for the zero time.
func (r *Recorder) At(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return int64(t.Sub(r.start))
}

// Add records an operation. End is set to now where it is zero.
func (r *Recorder) Add(o Op) {
	if o.End == 0 {
		o.End = r.Now()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops = append(r.ops, o)
	if r.enc != nil && r.err == nil {
		r.err = r.enc.Encode(&o)
	}
}

// Ops returns what was recorded so far, by beginning.
func (r *Recorder) Ops() ([]Op, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := slices.Clone(r.ops)
	Sort(out)
	return out, r.err
}

// Sort orders operations by their beginning.
func Sort(ops []Op) {
	slices.SortStableFunc(ops, func(a, b Op) int {
		switch {
		case a.Begin < b.Begin:
			return -1
		case a.Begin > b.Begin:
			return 1
		}
		return 0
	})
}

// Read reads a history that a Recorder wrote.
func Read(path string) ([]Op, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var ops []Op
	for d := json.NewDecoder(f); d.More(); {
		var o Op
		if err := d.Decode(&o); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, len(ops)+1, err)
		}
		ops = append(ops, o)
	}
	Sort(ops)
	return ops, nil
}
