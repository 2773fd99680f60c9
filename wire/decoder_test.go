package wire

import (
	"bytes"
	"errors"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// cat joins byte strings.
func cat(parts ...string) []byte { return []byte(strings.Join(parts, "")) }

// The lengths that mean something.
const (
	null   = "\xff\xff\xff\xff" // -1
	minus2 = "\xff\xff\xff\xfe"
	huge   = "\x7f\xff\xff\xff"
	zero   = "\x00\x00\x00\x00"
	one    = "\x00\x00\x00\x01"
	two    = "\x00\x00\x00\x02"
	three  = "\x00\x00\x00\x03"
)

// TestNullAndEmptyBuffersDiffer: a node created with null data answers null.
func TestNullAndEmptyBuffersDiffer(t *testing.T) {
	for _, tt := range []struct {
		name string
		wire []byte
		want []byte
	}{
		{"null", cat(null), nil},
		{"empty", cat(zero), []byte{}},
		{"two bytes", cat(two, "xy"), []byte("xy")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := NewDecoder(tt.wire)
			got := d.Buffer()
			if !reflect.DeepEqual(got, tt.want) || d.Err() != nil || d.Len() != 0 {
				t.Errorf("got %#v, want %#v; %v", got, tt.want, d.Err())
			}
			if again := AppendBuffer(nil, got); !bytes.Equal(again, tt.wire) {
				t.Errorf("encoded again %x, want %x", again, tt.wire)
			}
		})
	}
}

func TestStringBytesKeepsNullApart(t *testing.T) {
	d := NewDecoder(cat(null, zero, one, "\xff"))
	null, empty, raw := d.StringBytes(), d.StringBytes(), d.StringBytes()
	if null != nil || empty == nil || string(raw) != "\xff" || d.Err() != nil {
		t.Errorf("got %#v, %#v, %#v, %v", null, empty, raw, d.Err())
	}
}

func TestBuffersAliasTheFrameButCannotGrowIntoIt(t *testing.T) {
	frame := cat(one, "x", one, "y")
	d := NewDecoder(frame)
	first := d.Buffer()
	if &first[0] != &frame[4] {
		t.Error("the buffer is a copy")
	}
	_ = append(first, 0xee)
	if d.Int32() != 1 || frame[5] != 0 {
		t.Error("an append to the buffer wrote into the frame")
	}
}

func TestAnyByteButZeroIsTrue(t *testing.T) {
	d := NewDecoder([]byte{0, 1, 2, 0xff})
	got := []bool{d.Bool(), d.Bool(), d.Bool(), d.Bool()}
	if want := []bool{false, true, true, true}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestVectorCounts: Java takes any negative count for an empty vector.
func TestVectorCounts(t *testing.T) {
	for name, count := range map[string]string{
		"null": null, "empty": zero, "-2": minus2, "the least": "\x80\x00\x00\x00",
	} {
		d := NewDecoder(cat(count, count, count, "rest"))
		if d.Strings() != nil || d.ACLs() != nil || d.ClientInfos() != nil || d.Err() != nil || string(d.Rest()) != "rest" {
			t.Errorf("%s: error %v, rest %q", name, d.Err(), d.Rest())
		}
	}
	if got := AppendClientInfos(AppendACLs(AppendStrings(nil, nil), nil), nil); !bytes.Equal(got, make([]byte, 12)) {
		t.Errorf("nil vectors are %x, want three empty ones", got)
	}
	d := NewDecoder(cat(two, null, one, "x"))
	if got := d.Strings(); !slices.Equal(got, []string{"", "x"}) {
		t.Errorf("a vector with a null string reads as %q", got)
	}
}

// TestLengthsAreCheckedBeforeAllocation: lengths that lie are errors that cost nothing.
func TestLengthsAreCheckedBeforeAllocation(t *testing.T) {
	reads := map[string]func(d *Decoder){
		"buffer":       func(d *Decoder) { d.Buffer() },
		"string":       func(d *Decoder) { _ = d.String() },
		"string bytes": func(d *Decoder) { d.StringBytes() },
		"path":         func(d *Decoder) { d.PathWatch() },
		"strings":      func(d *Decoder) { d.Strings() },
		"acls":         func(d *Decoder) { d.ACLs() },
		"client infos": func(d *Decoder) { d.ClientInfos() },
	}
	inputs := map[string][]byte{
		"huge":             cat(huge, "0123456789"),
		"one too many":     cat("\x00\x00\x00\x0b", "0123456789"),
		"nothing":          nil,
		"a short length":   cat("\x00\x00"),
		"no element":       cat(one),
		"a short element":  cat(one, two, "x"),
		"a negative entry": cat(one, minus2, "0123456789"),
	}
	for what, read := range reads {
		for name, in := range inputs {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			d := NewDecoder(in)
			read(&d)
			runtime.ReadMemStats(&after)
			// "one" is a good length for the buffers among them.
			if d.Err() == nil && !(in[3] == 1 && len(in) > 4) {
				t.Errorf("%s of %s: no error", what, name)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 64<<10 {
				t.Errorf("%s of %s: %d bytes allocated", what, name, used)
			}
		}
	}
}

func TestNegativeLengthsOtherThanNullAreErrors(t *testing.T) {
	d := NewDecoder(cat(minus2, "xx"))
	if d.Buffer() != nil || d.Err() == nil {
		t.Error("length -2 is no error")
	}
}

func TestSetMaxLenLimitsStringsAndBuffers(t *testing.T) {
	for limit, ok := range map[int]bool{2: false, 3: true, 0: true} {
		d := NewDecoder(cat(three, "abc"))
		d.SetMaxLen(limit)
		if d.Buffer(); (d.Err() == nil) != ok {
			t.Errorf("limit %d: %v", limit, d.Err())
		}
		d.Reset(cat(three, "abc"))
		if got := d.String(); (got == "abc") != ok {
			t.Errorf("limit %d after Reset: %q, %v", limit, got, d.Err())
		}
	}
	d := NewDecoder(append(cat("\x00\x20\x00\x00"), make([]byte, 0x200000)...))
	if d.Buffer(); d.Err() == nil {
		t.Errorf("a buffer of %d bytes passes the default limit of %d", 0x200000, DefaultMaxLen)
	}
}

func TestFirstErrorSticks(t *testing.T) {
	d := NewDecoder(cat(one, minus2, one))
	d.Int32()
	_ = d.String()
	first := d.Err()
	var malformed *MalformedError
	if !errors.As(first, &malformed) || malformed.Offset != 4 {
		t.Fatalf("error is %v, want one at byte 4", first)
	}
	if want := "malformed record at byte 4: length -2 is negative and not -1"; first.Error() != want {
		t.Errorf("error is %q, want %q", first, want)
	}
	if d.Int32() != 0 || d.Int64() != 0 || d.Bool() || d.String() != "" || d.Strings() != nil ||
		d.ACLs() != nil || d.Stat() != (Stat{}) || d.Len() != 0 || len(d.Rest()) != 0 {
		t.Error("something decodes after an error")
	}
	if d.Err() != first {
		t.Errorf("error became %v", d.Err())
	}
	d.Reset(cat(one))
	if d.Int32() != 1 || d.Err() != nil {
		t.Error("Reset keeps the error")
	}
}

// TestErrorOffsets: also where a look ahead was needed to find the fault.
func TestErrorOffsets(t *testing.T) {
	for name, tt := range map[string]struct {
		in     []byte
		read   func(d *Decoder)
		offset int
	}{
		"null path":    {cat(one, null, "\x00"), func(d *Decoder) { d.Int32(); (&PathWatchRequest{}).Decode(d) }, 4},
		"null bytes":   {cat(one, null, "\x00"), func(d *Decoder) { d.Int32(); d.PathWatch() }, 4},
		"count":        {cat(one, huge), func(d *Decoder) { d.Int32(); d.Strings() }, 4},
		"short stat":   {cat(one, "x"), func(d *Decoder) { d.Int32(); d.Stat() }, 4},
		"short string": {cat(one, two, "x"), func(d *Decoder) { d.Int32(); _ = d.String() }, 4},
	} {
		d := NewDecoder(tt.in)
		tt.read(&d)
		var malformed *MalformedError
		if !errors.As(d.Err(), &malformed) || malformed.Offset != tt.offset {
			t.Errorf("%s: %v, want an error at byte %d", name, d.Err(), tt.offset)
		}
	}
}

// TestMalformedUTF8IsReplacedAsInJava: what new String(bytes, UTF_8) gives.
func TestMalformedUTF8IsReplacedAsInJava(t *testing.T) {
	const r = "\uFFFD"
	for in, want := range map[string]string{
		"plain":                    "plain",
		"\u00e4\u20ac\U0001f600":   "\u00e4\u20ac\U0001f600",
		"a\xffb":                   "a" + r + "b",
		"\x80\xbf":                 r + r,         // stray continuations
		"\xc0\x80":                 r + r,         // overlong NUL
		"\xc3":                     r,             // cut
		"\xc3A":                    r + "A",       // cut by a letter
		"\xe2\x82":                 r,             // cut
		"\xe2\x82A":                r + "A",       // two bytes of three
		"\xe2A\x82":                r + "A" + r,   // one byte of three
		"\xe0\x80\x80":             r + r + r,     // overlong
		"\xed\xa0\xbd\xed\xb8\x80": r + r,         // a pair of surrogates, as Java clients write it
		"\xed\xa0":                 r,             // half of one
		"\xf0\x9f\x98":             r,             // cut
		"\xf0\x9f\x98A":            r + "A",       // three bytes of four
		"\xf0\x8f\x80\x80":         r + r + r + r, // overlong
		"\xf4\x90\x80\x80":         r + r + r + r, // beyond U+10FFFF
		"\xf5\x80":                 r + r,         // never starts a sequence
	} {
		d := NewDecoder(AppendString(nil, in))
		if got := d.String(); got != want {
			t.Errorf("%q reads as %q, want %q", in, got, want)
		}
	}
}

func TestFrameLength(t *testing.T) {
	for _, tt := range []struct {
		prefix string
		want   int
		ok     bool
	}{
		{zero, 0, true},
		{"\x00\x0f\xff\xff", DefaultMaxFrame, true}, // the limit is inclusive
		{"\x00\x10\x00\x00", 0, false},
		{null, 0, false},
		{minus2, 0, false},
		{"ruok", 0, false},
	} {
		got, err := FrameLength([]byte(tt.prefix), DefaultMaxFrame)
		if got != tt.want || (err == nil) != tt.ok {
			t.Errorf("%x: %d, %v", tt.prefix, got, err)
		}
	}
}

func TestFramesCanFollowEachOther(t *testing.T) {
	b, mark := AppendFrame(nil)
	b = AppendReply(b, 1, 2, NoNode)
	FinishFrame(b, mark)
	b = AppendEvent(b, 5, EventNodeCreated, "/a")
	b, mark = AppendFrame(b)
	FinishFrame(b, mark)

	var sizes []int
	for len(b) > 0 {
		n, err := FrameLength(b, DefaultMaxFrame)
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, n)
		b = b[FrameLengthSize+n:]
	}
	if want := []int{16, 30, 0}; !slices.Equal(sizes, want) {
		t.Errorf("bodies of %v bytes, want %v", sizes, want)
	}
}
