package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func clientOf(url string, p pulse) *adminClient {
	return &adminClient{commands: url + "/commands", alive: url + "/livez", pulse: p}
}

// A backup from cron must not hang for ever, with the lock of the script that runs it.
func TestSilentServerIsGivenUp(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close() // connections wait to be accepted
	a := clientOf("http://"+l.Addr().String(), pulse{time.Millisecond, 20 * time.Millisecond})
	_, err = a.do(t.Context(), http.MethodGet, "snapshot", nil, nil, 0)
	require.ErrorIs(t, err, errSilent)
}

func TestServerThatFallsSilentIsGivenUp(t *testing.T) {
	done := make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/commands/snapshot" {
			_, _ = io.WriteString(w, "the beginning")
			w.(http.Flusher).Flush()
		}
		select { // then it hangs, and so does /livez
		case <-done:
		case <-r.Context().Done():
		}
	}))
	defer web.Close()
	defer close(done)
	a := clientOf(web.URL, pulse{time.Millisecond, 20 * time.Millisecond})
	resp, err := a.do(t.Context(), http.MethodGet, "snapshot", nil, nil, 0)
	if err == nil { // else it was given up before it began, on a busy machine
		_, err = io.ReadAll(resp.Body)
		require.NoError(t, resp.Body.Close())
	}
	require.ErrorIs(t, err, errSilent)
}

// A snapshot of a large tree takes its time, and a server that shows that it is alive is waited for.
func TestSlowServerIsWaitedFor(t *testing.T) {
	var looks atomic.Int32
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/commands/snapshot" {
			looks.Add(1)
			http.NotFound(w, r) // any answer is a sign of life
			return
		}
		for looks.Load() < 3*looksInVain && r.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
		_, _ = io.WriteString(w, "all")
	}))
	defer web.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	resp, err := clientOf(web.URL, pulse{time.Millisecond, patience}).do(ctx, http.MethodGet, "snapshot", nil, nil, 0)
	require.NoError(t, err)
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "all", string(b))
	require.NoError(t, resp.Body.Close())
}
