package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

type part struct {
	id, version uint32
	content     []byte
}

func write(tb fataler, parts []part) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := NewWriter(&b)
	for _, p := range parts {
		if _, err := w.Section(p.id, p.version).Write(p.content); err != nil {
			tb.Fatalf("%v", err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatalf("%v", err)
	}
	return b.Bytes()
}

type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func read(r io.Reader) ([]part, error) {
	var parts []part
	in := NewReader(r)
	for {
		id, version, content, err := in.Next()
		if err == io.EOF {
			return parts, nil
		}
		if err != nil {
			return parts, err
		}
		b, err := io.ReadAll(content)
		if err != nil {
			return parts, err
		}
		parts = append(parts, part{id, version, b})
	}
}

func samePart(a, b part) bool {
	return a.id == b.id && a.version == b.version && bytes.Equal(a.content, b.content)
}

var small = []part{{1, 1, []byte("hello")}, {2, 7, nil}, {1 << 31, 0, []byte("\x00world")}}

func TestWhatIsWrittenIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var parts []part
		var b bytes.Buffer
		w := NewWriter(&b)
		for range rapid.IntRange(0, 4).Draw(t, "sections") {
			p := part{id: rapid.Uint32().Draw(t, "id"), version: rapid.Uint32().Draw(t, "version")}
			s := w.Section(p.id, p.version)
			for range rapid.IntRange(0, 3).Draw(t, "writes") {
				n := rapid.SampledFrom([]int{0, 1, 100, maxPayload - 1, maxPayload, maxPayload + 1, 2 * maxPayload}).Draw(t, "bytes")
				chunk := bytes.Repeat([]byte{byte(n), byte(len(p.content))}, n)[:n]
				if k, err := s.Write(chunk); k != n || err != nil {
					t.Fatalf("Write = %d, %v", k, err)
				}
				p.content = append(p.content, chunk...)
			}
			parts = append(parts, p)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		got, err := read(&b)
		if err != nil || !slices.EqualFunc(got, parts, samePart) {
			t.Fatalf("read %d sections, wrote %d: %v", len(got), len(parts), err)
		}
	})
}

// The bytes of format 1 must never change.
func TestFormatOneIsFixed(t *testing.T) {
	const want = "7a6b64736e61700a00000001c204fb1a" + // head
		"0100000825962e41" + "0000000300000002" + // section 3, version 2
		"02000003c1afce3a" + "616263" +
		"030000088b5aabb8" + "0000000000000003" +
		"040000141b8f69f9" + "00000001" + "0000000000000003" + "0000000000000003"
	if got := fmt.Sprintf("%x", write(t, []part{{3, 2, []byte("abc")}})); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestSectionsCanBePassed(t *testing.T) {
	in := NewReader(bytes.NewReader(write(t, []part{{1, 1, make([]byte, 3*maxPayload)}, {2, 2, []byte("b")}})))
	_, _, first, err := in.Next()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(first, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	id, _, second, err := in.Next()
	if err != nil || id != 2 {
		t.Fatalf("Next = %d, %v", id, err)
	}
	if _, err := first.Read(make([]byte, 1)); err == nil || err == io.EOF {
		t.Errorf("a section that was passed can be read: %v", err)
	}
	if b, err := io.ReadAll(second); string(b) != "b" || err != nil {
		t.Errorf("read %q, %v", b, err)
	}
	for range 2 {
		if _, _, _, err := in.Next(); err != io.EOF {
			t.Errorf("at the end: %v", err)
		}
	}
}

func TestSectionThatHasEndedRefusesWrites(t *testing.T) {
	w := NewWriter(io.Discard)
	first := w.Section(1, 1)
	second := w.Section(2, 1)
	if _, err := first.Write([]byte("x")); err == nil {
		t.Error("the first section takes writes after the second has begun")
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := second.Write([]byte("x")); err == nil {
		t.Error("a section takes writes after Close")
	}
	if err := w.Close(); err == nil {
		t.Error("closed twice")
	}
}

func TestEveryDamageIsFound(t *testing.T) {
	good := write(t, small)
	check := func(what string, b []byte) {
		t.Helper()
		_, err := read(bytes.NewReader(b))
		var damage *DamageError
		if !errors.As(err, &damage) && !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", what, err)
		}
		if damage != nil && (damage.Offset < 0 || damage.Offset > int64(len(b))) {
			t.Errorf("%s: offset %d of %d", what, damage.Offset, len(b))
		}
	}
	for i := range good {
		check(fmt.Sprintf("cut at %d", i), good[:i])
		for x := 1; x < 256; x++ {
			b := bytes.Clone(good)
			b[i] ^= byte(x)
			check(fmt.Sprintf("byte %d changed by %#x", i, x), b)
		}
		check(fmt.Sprintf("without byte %d", i), slices.Delete(bytes.Clone(good), i, i+1))
		check(fmt.Sprintf("with a byte more at %d", i), slices.Insert(bytes.Clone(good), i, good[i]+1))
	}
	check("extended", append(bytes.Clone(good), 0))
	check("twice", append(bytes.Clone(good), good...))
	check("empty", nil)
}

// blocks cuts a file at its block boundaries; the first piece is the head.
func blocks(file []byte) [][]byte {
	pieces := [][]byte{file[:headBytes]}
	for rest := file[headBytes:]; len(rest) > 0; {
		n := prefixBytes + int(rest[1])<<16 + int(rest[2])<<8 + int(rest[3])
		pieces = append(pieces, rest[:n])
		rest = rest[n:]
	}
	return pieces
}

func TestBlocksAreGoodOnlyInTheirPlace(t *testing.T) {
	content := make([]byte, 3*maxPayload)
	mine := blocks(write(t, []part{{1, 1, content}, {1, 1, content}}))
	other := blocks(write(t, []part{{1, 1, bytes.Repeat([]byte{1}, len(content))}, {1, 1, content}}))
	for i := 1; i < len(mine); i++ {
		for what, changed := range map[string][][]byte{
			"left out": slices.Delete(slices.Clone(mine), i, i+1),
			"doubled":  slices.Insert(slices.Clone(mine), i, mine[i]),
			"foreign":  slices.Concat(mine[:i], other[i:i+1], mine[i+1:]),
			"spliced":  slices.Concat(mine[:i], other[i:]),
		} {
			if what == "foreign" && i == 1 || what == "spliced" && i <= 2 {
				continue // the first section begins alike in both files
			}
			if _, err := read(bytes.NewReader(bytes.Join(changed, nil))); err == nil {
				t.Errorf("block %d %s: no error", i, what)
			}
		}
		for j := 1; j < i; j++ {
			swapped := slices.Clone(mine)
			swapped[i], swapped[j] = swapped[j], swapped[i]
			if _, err := read(bytes.NewReader(bytes.Join(swapped, nil))); err == nil {
				t.Errorf("blocks %d and %d swapped: no error", i, j)
			}
		}
	}
}

type failingWriter struct{ left int }

var errDisk = errors.New("disk full")

func (w *failingWriter) Write(b []byte) (int, error) {
	if w.left--; w.left < 0 {
		return 0, errDisk
	}
	return len(b), nil
}

// The N-th write fails, N = 1, 2, 3 and so on until it succeeds.
func TestEveryFailedWriteIsReported(t *testing.T) {
	for n := 0; ; n++ {
		w := NewWriter(&failingWriter{left: n})
		for _, p := range small {
			s := w.Section(p.id, p.version)
			_, _ = s.Write(p.content)
		}
		err := w.Close()
		if err == nil {
			if n < 9 {
				t.Errorf("only %d writes", n)
			}
			return
		}
		if !errors.Is(err, errDisk) {
			t.Fatalf("write %d: %v", n, err)
		}
	}
}

// An error of the stream is no damage, and comes out as it is.
func TestEveryFailedReadIsReported(t *testing.T) {
	good := write(t, small)
	for n := range len(good) + 1 {
		r := io.MultiReader(bytes.NewReader(good[:n]), iotest.ErrReader(errDisk))
		if _, err := read(r); !errors.Is(err, errDisk) {
			t.Errorf("after %d bytes: %v", n, err)
		}
	}
	if _, err := read(iotest.OneByteReader(bytes.NewReader(good))); err != nil {
		t.Errorf("byte by byte: %v", err)
	}
}

func TestMemoryIsOneBlock(t *testing.T) {
	r, w := io.Pipe()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	go func() {
		out := NewWriter(w)
		s := out.Section(1, 1)
		chunk := make([]byte, 100_000)
		for range 1000 {
			if _, err := s.Write(chunk); err != nil {
				break
			}
		}
		w.CloseWithError(out.Close())
	}()
	in := NewReader(r)
	_, _, content, err := in.Next()
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(struct{ io.Writer }{io.Discard}, content)
	if n != 100_000_000 || err != nil {
		t.Fatalf("%d bytes, %v", n, err)
	}
	if _, _, _, err := in.Next(); err != io.EOF {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 4<<20 {
		t.Errorf("%d bytes allocated for a stream of 100 MB", got)
	}
}

func FuzzReader(f *testing.F) {
	f.Add(write(f, small))
	f.Add(write(f, nil))
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		parts, err := read(bytes.NewReader(b))
		if err != nil {
			return
		}
		again, err := read(bytes.NewReader(write(t, parts)))
		if err != nil || !slices.EqualFunc(again, parts, samePart) {
			t.Fatalf("written again: %v", err)
		}
	})
}

func BenchmarkWrite(b *testing.B) {
	content := make([]byte, 16<<20)
	b.SetBytes(int64(len(content)))
	b.ReportAllocs()
	for b.Loop() {
		w := NewWriter(io.Discard)
		_, _ = w.Section(1, 1).Write(content)
		if err := w.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	file := write(b, []part{{1, 1, make([]byte, 16<<20)}})
	b.SetBytes(int64(len(file)))
	b.ReportAllocs()
	for b.Loop() {
		in := NewReader(bytes.NewReader(file))
		_, _, content, err := in.Next()
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, content); err != nil {
			b.Fatal(err)
		}
	}
}
