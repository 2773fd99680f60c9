package admin

import (
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/zkd-project/zkd/server/stats"
)

// chunkBytes is how much of an answer is gathered before it is written.
const chunkBytes = 16 << 10

// An object is a JSON object on its way to a client, laid out as Jackson's pretty printer
// does for ZooKeeper: two blanks per level, " : " behind a name, lists on one line. Fields go
// out in the order in which they are added. After the first failed write everything more is
// dropped.
type object struct {
	w      io.Writer
	buf    []byte
	err    error
	level  int  // of the fields
	fields int  // of the innermost object so far
	failed bool // a field "error" was added to the outermost object
}

func newObject(w io.Writer) *object {
	o := &object{w: w, buf: make([]byte, 0, 512)}
	o.open()
	return o
}

func (o *object) open() {
	o.buf = append(o.buf, '{')
	o.level++
	o.fields = 0
}

func (o *object) close() {
	o.level--
	if o.fields == 0 {
		o.buf = append(o.buf, ' ', '}')
		return
	}
	o.newline()
	o.buf = append(o.buf, '}')
}

// finish ends the outermost object and returns the first error of all writes.
func (o *object) finish() error {
	o.close()
	o.flush()
	return o.err
}

func (o *object) newline() {
	o.buf = append(o.buf, '\n')
	for range o.level {
		o.buf = append(o.buf, ' ', ' ')
	}
}

func (o *object) flush() {
	if o.err == nil && len(o.buf) > 0 {
		_, o.err = o.w.Write(o.buf)
	}
	o.buf = o.buf[:0]
}

func (o *object) name(name string) {
	if len(o.buf) >= chunkBytes {
		o.flush()
	}
	if o.fields > 0 {
		o.buf = append(o.buf, ',')
	}
	o.fields++
	o.newline()
	o.buf = appendQuoted(o.buf, name)
	o.buf = append(o.buf, " : "...)
}

func (o *object) str(name, v string) {
	o.name(name)
	o.buf = appendQuoted(o.buf, v)
}

func (o *object) boolean(name string, v bool) {
	o.name(name)
	o.buf = strconv.AppendBool(o.buf, v)
}

func (o *object) float(name string, v float64) { o.number(name, stats.FormatFloat(v)) }

// number adds a number that is a text already.
func (o *object) number(name, v string) {
	o.name(name)
	o.buf = append(o.buf, v...)
}

func (o *object) null(name string) { o.number(name, "null") }

// fail adds the field error, in place of the one that every answer ends with.
func (o *object) fail(text string) {
	o.str("error", text)
	o.failed = true
}

// integer adds a whole number.
func integer[T int | int32 | int64](o *object, name string, v T) {
	o.number(name, strconv.FormatInt(int64(v), 10))
}

// object adds an object with the fields that f adds.
func (o *object) object(name string, f func()) {
	o.name(name)
	outer := o.fields
	o.open()
	f()
	o.close()
	o.fields = outer
}

// list adds a list. f adds each element by a call of element, which is told what adds the
// element's fields; element says whether more are wanted.
func (o *object) list(name string, f func(element func(fields func()) bool)) {
	o.name(name)
	outer, n := o.fields, 0
	o.buf = append(o.buf, '[')
	f(func(fields func()) bool {
		o.separate(n)
		n++
		o.open()
		fields()
		o.close()
		return o.err == nil
	})
	o.buf = append(o.buf, ' ', ']')
	o.fields = outer
}

func (o *object) strings(name string, v ...string) {
	o.name(name)
	o.buf = append(o.buf, '[')
	for i, s := range v {
		o.separate(i)
		o.buf = appendQuoted(o.buf, s)
	}
	o.buf = append(o.buf, ' ', ']')
}

func (o *object) integers(name string, v ...int64) {
	o.name(name)
	o.buf = append(o.buf, '[')
	for i, n := range v {
		o.separate(i)
		o.buf = strconv.AppendInt(o.buf, n, 10)
	}
	o.buf = append(o.buf, ' ', ']')
}

// separate begins element n of a list.
func (o *object) separate(n int) {
	if len(o.buf) >= chunkBytes {
		o.flush()
	}
	if n > 0 {
		o.buf = append(o.buf, ',')
	}
	o.buf = append(o.buf, ' ')
}

// appendQuoted appends s as a JSON string, in Jackson's spelling. Paths are chosen by
// clients: what is no UTF-8 becomes U+FFFD, for a parser might refuse the whole answer.
func appendQuoted(b []byte, s string) []byte {
	const hex = "0123456789ABCDEF"
	b = append(b, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			b = utf8.AppendRune(b, r)
			i += size
			continue
		}
		i++
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		case '\b':
			b = append(b, '\\', 'b')
		case '\f':
			b = append(b, '\\', 'f')
		default:
			if c < ' ' {
				b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
				continue
			}
			b = append(b, c)
		}
	}
	return append(b, '"')
}
