package foreign

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// A question and its answer are a line each, of fields between tabs. No field has a tab or the end of a
// line in it.

// A question is what a child is to do.
type question struct {
	Do      string
	Path    string
	Value   string
	Version int32
	Seconds int
}

func (q *question) send(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\n", q.Do, q.Path, q.Value, q.Version, q.Seconds)
	return err
}

// An answer is what became of it.
type answer struct {
	Session int64  // 0: there is no connection just now
	Lost    string // why it is not known; "" if it is
	Code    int32
	Value   string
	Version int32
	Czxid   int64
	Mzxid   int64
	Owner   int64

	begin, end int64 // when it was asked and answered, on the clock of the run
}

// receive reads an answer.
func receive(r *bufio.Reader) (a answer, err error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return a, err
	}
	fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
	if len(fields) != 8 {
		return a, fmt.Errorf("an answer has %d fields instead of 8: %q", len(fields), line)
	}
	number := func(field, bits int) int64 {
		n, e := strconv.ParseInt(fields[field], 10, bits)
		if err == nil && e != nil {
			err = fmt.Errorf("field %d of the answer %q: %w", field, line, e)
		}
		return n
	}
	a = answer{
		Session: number(0, 64), Lost: fields[1], Code: int32(number(2, 32)), Value: fields[3],
		Version: int32(number(4, 32)), Czxid: number(5, 64), Mzxid: number(6, 64), Owner: number(7, 64),
	}
	return a, err
}
