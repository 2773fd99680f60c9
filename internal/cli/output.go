package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/zkd-project/zkd/client"
)

// A format is what -o chooses.
type format int

const (
	formatTable format = iota // for people, and zkCli's own text for its commands
	formatJSON                // one JSON value per line
	formatRaw                 // values alone: data as it is, one name per line
)

func parseFormat(s string) (format, error) {
	switch s {
	case "table":
		return formatTable, nil
	case "json":
		return formatJSON, nil
	case "raw":
		return formatRaw, nil
	}
	return 0, usagef("-o %s is no format; it is table, json or raw", s)
}

// A printer is standard output. A write is never torn by another goroutine's.
type printer struct {
	mu  sync.Mutex
	buf *bufio.Writer
}

func newPrinter(w io.Writer) *printer { return &printer{buf: bufio.NewWriterSize(w, 64<<10)} }

// Write implements io.Writer.
func (p *printer) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.buf.Write(b)
}

// Flush writes out what is buffered.
func (p *printer) Flush() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.buf.Flush()
}

// printNow is for goroutines beside the command.
func (p *printer) printNow(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = p.buf.WriteString(text)
	_ = p.buf.Flush()
}

// A lineWriter is standard error: unbuffered, and a write is never torn by another goroutine's.
type lineWriter struct {
	mu sync.Mutex
	w  io.Writer
}

// Write implements io.Writer.
func (l *lineWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// json prints one value on one line.
func (c *call) json(v any) error {
	b, err := marshal(v)
	if err != nil {
		return err
	}
	_, err = c.out.Write(append(b, '\n'))
	return err
}

// marshal is json.Marshal without the escapes that are meant for HTML.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}

// printf prints to standard output.
func (c *call) printf(format string, args ...any) { fmt.Fprintf(c.out, format, args...) }

// note prints a line to standard error, behind what has been printed to standard output.
func (c *call) note(format string, args ...any) {
	_ = c.sh.out.Flush()
	fmt.Fprintf(c.err, format+"\n", args...)
}

// rows prints aligned columns.
func (c *call) rows(rows [][]string) {
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		for i, cell := range r {
			if i > 0 {
				fmt.Fprint(w, "\t")
			}
			fmt.Fprint(w, cell)
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush()
}

// javaDate is how java.util.Date prints a time in milliseconds, in the local zone.
func javaDate(ms int64) string { return time.UnixMilli(ms).Format("Mon Jan 02 15:04:05 MST 2006") }

// printStat prints a stat as zkCli does.
func (c *call) printStat(s client.Stat) {
	c.printf("cZxid = 0x%x\nctime = %s\nmZxid = 0x%x\nmtime = %s\npZxid = 0x%x\n"+
		"cversion = %d\ndataVersion = %d\naclVersion = %d\nephemeralOwner = 0x%x\ndataLength = %d\nnumChildren = %d\n",
		uint64(s.Czxid), javaDate(s.CtimeMs), uint64(s.Mzxid), javaDate(s.MtimeMs), uint64(s.Pzxid),
		s.Cversion, s.Version, s.Aversion, uint64(s.EphemeralOwner), s.DataLength, s.NumChildren)
}

// statJSON is a Stat with zkCli's names. What does not fit into a JavaScript number is text.
type statJSON struct {
	CZxid          string `json:"cZxid"`
	CTime          string `json:"ctime"`
	MZxid          string `json:"mZxid"`
	MTime          string `json:"mtime"`
	PZxid          string `json:"pZxid"`
	CVersion       int32  `json:"cversion"`
	DataVersion    int32  `json:"dataVersion"`
	ACLVersion     int32  `json:"aclVersion"`
	EphemeralOwner string `json:"ephemeralOwner"`
	DataLength     int32  `json:"dataLength"`
	NumChildren    int32  `json:"numChildren"`
}

func jsonStat(s client.Stat) *statJSON {
	return &statJSON{
		CZxid: hex(s.Czxid), CTime: isoTime(s.CtimeMs), MZxid: hex(s.Mzxid), MTime: isoTime(s.MtimeMs), PZxid: hex(s.Pzxid),
		CVersion: s.Cversion, DataVersion: s.Version, ACLVersion: s.Aversion, EphemeralOwner: hex(s.EphemeralOwner),
		DataLength: s.DataLength, NumChildren: s.NumChildren,
	}
}

func hex(n int64) string { return fmt.Sprintf("0x%x", uint64(n)) }

func isoTime(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

// dataJSON is data in JSON: text where it is UTF-8, else base64; both are missing for null.
type dataJSON struct {
	Data       *string `json:"data,omitempty"`
	DataBase64 []byte  `json:"dataBase64,omitempty"`
}

func jsonData(b []byte) dataJSON {
	switch {
	case b == nil:
		return dataJSON{}
	case utf8.Valid(b):
		s := string(b)
		return dataJSON{Data: &s}
	}
	return dataJSON{DataBase64: b}
}

func (d dataJSON) bytes() []byte {
	if d.Data != nil {
		return []byte(*d.Data)
	}
	return d.DataBase64
}
