package httpport

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A pipeListener hands out the ends of pipes, so that a port runs in virtual time.
type pipeListener struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

func (l *pipeListener) dial() net.Conn {
	near, far := net.Pipe()
	l.conns <- far
	return near
}

// inBubble runs a test with a port in virtual time.
func inBubble(t *testing.T, h http.HandlerFunc, test func(t *testing.T, l *pipeListener)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := newPipeListener()
		p := newPort(l, Options{})
		p.Serve(h)
		defer p.Close()
		test(t, l)
	})
}

func get(c net.Conn, path string) (*http.Response, error) {
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path); err != nil {
		return nil, err
	}
	return http.ReadResponse(bufio.NewReader(c), nil)
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return string(b)
}

func hello(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }

func TestHeaderMustCompleteInTime(t *testing.T) {
	inBubble(t, hello, func(t *testing.T, l *pipeListener) {
		c := l.dial()
		began := time.Now()
		_, err := io.WriteString(c, "GET / HTTP/1.1\r\n")
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, c) // returns when the port has closed
		require.InDelta(t, headerTime.Seconds(), time.Since(began).Seconds(), 1)
	})
}

// The handshake counts as part of the header.
func TestTLSHandshakeMustCompleteInTime(t *testing.T) {
	conf, _ := testCertificate(t)
	synctest.Test(t, func(t *testing.T) {
		l := newPipeListener()
		p := newPort(l, Options{TLS: conf})
		p.Serve(http.HandlerFunc(hello))
		defer p.Close()
		for _, first := range []string{"", "\x16", "\x16\x03\x01\x02\x00\x01"} {
			c := l.dial()
			began := time.Now()
			_, err := io.WriteString(c, first)
			require.NoError(t, err)
			_, _ = io.Copy(io.Discard, c)
			require.InDelta(t, headerTime.Seconds(), time.Since(began).Seconds(), 1)
		}
	})
}

// A client that asks nothing, or takes nothing, does not hold up the end for long.
func TestCloseIsPrompt(t *testing.T) {
	for name, limit := range map[string]time.Duration{"asks nothing": 100 * time.Millisecond, "takes nothing": drainTime + goodbyeTime + time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, failed := newPipeListener(), make(chan error, 1)
				p := newPort(l, Options{})
				p.Serve(endless(failed))
				c := l.dial()
				if name == "takes nothing" {
					_, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
					require.NoError(t, err)
				}
				synctest.Wait()
				began := time.Now()
				p.Close()
				require.LessOrEqual(t, time.Since(began), limit)
			})
		})
	}
}

func TestIdleConnectionStaysWithoutALimit(t *testing.T) {
	inBubble(t, hello, func(t *testing.T, l *pipeListener) {
		c := l.dial()
		for range 2 {
			r, err := get(c, "/")
			require.NoError(t, err)
			require.Equal(t, "hello", body(t, r))
			time.Sleep(time.Hour) // virtual
		}
	})
}

func TestLongHeaderIsRefused(t *testing.T) {
	inBubble(t, hello, func(t *testing.T, l *pipeListener) {
		c := l.dial()
		go func() {
			_, _ = fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: localhost\r\nX: %s\r\n\r\n", strings.Repeat("x", 2*maxHeaderBytes))
		}()
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, r.StatusCode)
		_ = c.Close()
	})
}

// endless answers until the client is cut off, and says so.
func endless(failed chan<- error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := io.WriteString(w, strings.Repeat("x", 8<<10)); err != nil {
				failed <- err
				return
			}
		}
	}
}

// A client that takes nothing is cut off, and so is one that takes a little again and again
// until the time for the whole answer is over.
func TestClientThatDoesNotReadIsCutOff(t *testing.T) {
	for _, tt := range []struct {
		name  string
		every time.Duration // the client takes some KiB so often; 0: never
		limit time.Duration
	}{
		{"never", 0, stallTime},
		{"slowly", stallTime / 2, answerTime},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, failed := newPipeListener(), make(chan error, 1)
				p := newPort(l, Options{})
				p.Serve(endless(failed))
				defer p.Close()
				c := l.dial()
				began := time.Now()
				_, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
				require.NoError(t, err)
				reader := make(chan struct{})
				if tt.every == 0 {
					close(reader)
				} else {
					go func() {
						defer close(reader)
						for b := make([]byte, 4<<10); ; {
							time.Sleep(tt.every) // virtual
							if _, err := c.Read(b); err != nil {
								return
							}
						}
					}()
				}
				require.Error(t, <-failed)
				require.InDelta(t, tt.limit.Seconds(), time.Since(began).Seconds(), 1)
				<-reader
			})
		})
	}
}

func TestLongAnswerHasNoLimit(t *testing.T) {
	inBubble(t, func(w http.ResponseWriter, r *http.Request) {
		LongAnswer(r.Context())
		time.Sleep(2 * answerTime) // virtual
		hello(w, r)
	}, func(t *testing.T, l *pipeListener) {
		r, err := get(l.dial(), "/")
		require.NoError(t, err)
		require.Equal(t, "hello", body(t, r))
	})
}

// Whoever opens connections and asks nothing keeps nobody out.
func TestWaitingConnectionsMakeRoom(t *testing.T) {
	inBubble(t, hello, func(t *testing.T, l *pipeListener) {
		first := l.dial()
		for range maxConns {
			l.dial()
		}
		synctest.Wait()
		r, err := get(l.dial(), "/")
		require.NoError(t, err)
		require.Equal(t, "hello", body(t, r))
		_, err = first.Write([]byte("G"))
		require.ErrorIs(t, err, io.ErrClosedPipe, "the one that waited longest had to go")
	})
}

func TestConnectionsAtWorkStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		l := newPipeListener()
		p := newPort(l, Options{})
		p.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-release
			hello(w, r)
		}))
		defer p.Close()
		var busy []net.Conn
		for range maxConns {
			c := l.dial()
			_, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
			require.NoError(t, err)
			busy = append(busy, c)
		}
		synctest.Wait()
		_, err := get(l.dial(), "/")
		require.Error(t, err, "one more is turned away")
		close(release)
		for _, c := range busy {
			r, err := http.ReadResponse(bufio.NewReader(c), nil)
			require.NoError(t, err)
			require.Equal(t, "hello", body(t, r))
		}
	})
}

func TestLimitAnswersAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		l := newPipeListener()
		p := newPort(l, Options{})
		p.Serve(Limit(1, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-release
			hello(w, r)
		})))
		defer p.Close()
		first := l.dial()
		_, err := io.WriteString(first, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		require.NoError(t, err)
		synctest.Wait()
		r, err := get(l.dial(), "/")
		require.NoError(t, err)
		require.Equal(t, http.StatusServiceUnavailable, r.StatusCode)
		require.Equal(t, "1", r.Header.Get("Retry-After"))
		close(release)
		r, err = http.ReadResponse(bufio.NewReader(first), nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, r.StatusCode)
	})
}

func TestCloseWaitsForTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPipeListener()
		p := newPort(l, Options{})
		over := false
		p.Serve(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done() // Close has cut the connection
			time.Sleep(time.Minute)
			over = true
		}))
		c := l.dial()
		_, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		require.NoError(t, err)
		synctest.Wait()
		p.Close()
		require.True(t, over)
	})
}
