package segment

import (
	"fmt"
	"sync"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/zkd-project/zkd/internal/vfs"
)

func BenchmarkStoreLogs(b *testing.B) {
	for _, size := range []int{200, 4 << 10, 64 << 10, 256 << 10} {
		b.Run(fmt.Sprintf("1x%d", size), func(b *testing.B) { benchStore(b, 1, size) })
	}
	b.Run("64x200", func(b *testing.B) { benchStore(b, 64, 200) })
}

func benchStore(b *testing.B, n, size int) {
	l := mustOpen(b, Options{FS: vfs.OS, Dir: b.TempDir(), Create: true})
	defer l.Close()
	next := uint64(1)
	b.SetBytes(int64(n * size))
	b.ReportAllocs()
	data := make([]byte, size)
	batch := make([]*raft.Log, n)
	for b.Loop() {
		for i := range batch {
			batch[i] = &raft.Log{Index: next, Term: 1, Data: data}
			next++
		}
		if err := l.StoreLogs(batch); err != nil {
			b.Fatal(err)
		}
		if next%4096 == 0 { // as snapshots do: the disk must not fill up
			if err := l.DeleteRange(1, next-10); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkAppendBesideSync appends as a leader does: while one batch is synced the next
// ones are written, until so many entries wait to be durable.
func BenchmarkAppendBesideSync(b *testing.B) {
	for _, window := range []uint64{1, 64, 1024} {
		b.Run(fmt.Sprintf("1x200/window=%d", window), func(b *testing.B) { benchBeside(b, 200, window) })
	}
}

func benchBeside(b *testing.B, size int, window uint64) {
	l := mustOpen(b, Options{FS: vfs.OS, Dir: b.TempDir(), Create: true})
	defer l.Close()
	appended := make(chan struct{}, 1)
	durable := make(chan struct{}, 1)
	wake := func(c chan struct{}) {
		select {
		case c <- struct{}{}:
		default:
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for range appended {
			if _, err := l.Sync(); err != nil {
				b.Error(err)
			}
			wake(durable)
		}
	})
	next := uint64(1)
	data := make([]byte, size)
	batch := make([]*raft.Log, 1)
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		batch[0] = &raft.Log{Index: next, Term: 1, Data: data}
		if err := l.Append(batch); err != nil {
			b.Fatal(err)
		}
		next++
		wake(appended)
		for next-1-l.Durable() >= window && l.failure() == nil {
			<-durable
		}
		if next%4096 == 0 { // as snapshots do: the disk must not fill up
			if err := l.DeleteRange(1, next-10); err != nil {
				b.Fatal(err)
			}
		}
	}
	close(appended)
	wg.Wait()
}

func BenchmarkReplay(b *testing.B) {
	for _, size := range []int{200, 64 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			o := Options{FS: vfs.OS, Dir: b.TempDir(), Create: true}
			l := mustOpen(b, o)
			const total = 128 << 20
			n := uint64(total / (size + recordSize))
			data := make([]byte, size)
			for i := uint64(1); i <= n; i += 1000 {
				var batch []*raft.Log
				for k := i; k < i+1000 && k <= n; k++ {
					batch = append(batch, &raft.Log{Index: k, Term: 1, Data: data})
				}
				mustStore(b, l, batch...)
			}
			l.Close()
			b.Run("open", func(b *testing.B) {
				b.SetBytes(total)
				for b.Loop() {
					l := mustOpen(b, o)
					l.Close()
				}
			})
			b.Run("read", func(b *testing.B) {
				l := mustOpen(b, o)
				defer l.Close()
				b.SetBytes(total)
				b.ReportAllocs()
				for b.Loop() {
					var e raft.Log
					for i := uint64(1); i <= n; i++ {
						if err := l.GetLog(i, &e); err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		})
	}
}
