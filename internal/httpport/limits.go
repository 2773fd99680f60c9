package httpport

import (
	"net/http"
	"time"
)

// What a connection may use up. All ports share these: they are for people and scrapers.
const (
	// maxConns connections may be open. When one more comes, the one that has waited longest
	// without asking anything is closed; if all are at work the new one is.
	maxConns = 256
	// maxHeaderBytes of a request: a long cookie jar fits, a flood does not.
	maxHeaderBytes = 16 << 10
	// headerTime is for the TLS handshake and the header of a request.
	headerTime = 5 * time.Second
	// bodyTime is for a body, which no request here needs.
	bodyTime = 5 * time.Second
	// stallTime may pass until the client has taken what is written next (some KiB).
	stallTime = 10 * time.Second
	// answerTime may pass until the whole answer is taken.
	answerTime = 2 * time.Minute
	// goodbyeTime may pass until the last word of TLS is taken.
	goodbyeTime = 100 * time.Millisecond
	// drainTime may pass in Close until the answers under way are cut off.
	drainTime = time.Second
)

// Limit lets n requests into h at a time; to more it answers at once that they may come
// again.
func Limit(n int, h http.Handler) http.Handler {
	slots := make(chan struct{}, n)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
			h.ServeHTTP(w, r)
		default:
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many requests are under way; come again", http.StatusServiceUnavailable)
		}
	})
}
