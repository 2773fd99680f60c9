package httpport

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// testCertificate is that of net/http/httptest: for 127.0.0.1, with a client that trusts it.
func testCertificate(t *testing.T) (*tls.Config, *http.Client) {
	t.Helper()
	s := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	client := s.Client()
	t.Cleanup(client.CloseIdleConnections)
	return &tls.Config{Certificates: s.TLS.Certificates}, client
}

func scheme(w http.ResponseWriter, r *http.Request) {
	if State(r.Context()) != nil {
		_, _ = io.WriteString(w, "https")
		return
	}
	_, _ = io.WriteString(w, "http")
}

func TestOnePortTakesBothSchemes(t *testing.T) {
	for _, tt := range []struct {
		name      string
		alsoPlain bool
		plain     string
		turnedOff int
	}{
		{"both", true, "http", 0},
		{"HTTPS only", false, "this port speaks HTTPS only\n", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conf, client := testCertificate(t)
			turnedOff := 0
			p, err := Listen(Options{Addr: "127.0.0.1:0", TLS: conf, AlsoPlain: tt.alsoPlain, TurnedOff: func() { turnedOff++ }})
			require.NoError(t, err)
			p.Serve(http.HandlerFunc(scheme))
			fetch := func(scheme string) string {
				r, err := client.Get(scheme + "://" + p.Addr().String())
				require.NoError(t, err)
				defer r.Body.Close()
				b, err := io.ReadAll(r.Body)
				require.NoError(t, err)
				return string(b)
			}
			require.Equal(t, "https", fetch("https"))
			require.Equal(t, tt.plain, fetch("http"))
			client.CloseIdleConnections()
			p.Close()
			require.Equal(t, tt.turnedOff, turnedOff)
		})
	}
}
