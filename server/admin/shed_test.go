package admin

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	zkc "github.com/zkd-project/zkd/client"
)

func post(t *testing.T, url, body string, header ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := httpClient.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(b)
}

// Shedding closes connections, not sessions: what they own stays.
func TestShedConnectionsComeBack(t *testing.T) {
	srv, url := open(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := zkc.Dial(ctx, srv.Addrs()[0].String())
	require.NoError(t, err)
	defer c.Close(ctx)
	_, _, err = c.Create(ctx, "/mine", nil, zkc.ModeEphemeral, nil)
	require.NoError(t, err)
	before := c.SessionID()
	status, answer := post(t, url+"/commands/shed_connections", `{"percentage": 0}`)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, answer, `"connections_shed" : 0`)
	status, answer = post(t, url+"/commands/shed_connections", `{"percentage": 100}`)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "{\n  \"connections_shed\" : 1,\n  \"percentage_requested\" : 100,\n  \"command\" : \"shed_connections\",\n  \"error\" : null\n}", answer)
	_, _, err = c.Get(ctx, "/mine") // on the next connection
	require.NoError(t, err)
	require.Equal(t, before, c.SessionID())
	require.EqualValues(t, 1, srv.Stats().ConnectionsDropped.Value(0))
}

func TestShedIsParticular(t *testing.T) {
	_, url := open(t)
	url += "/commands/shed_connections"
	for _, body := range []string{
		"", "{}", "[]", "10", `{"percentage": null}`, `{"percentage": -1}`, `{"percentage": 101}`, `{"percentage": 1.5}`, `{"percentage": "10"}`,
		`{"percent": 10}`, strings.Repeat(" ", maxShedBody) + `{"percentage": 1}`,
	} {
		status, answer := post(t, url, body)
		require.Equal(t, http.StatusBadRequest, status, "%s", body)
		require.True(t, json.Valid([]byte(answer)))
		require.Contains(t, answer, "percentage")
	}
	status, _ := post(t, url, `{"percentage": 0}`, "Sec-Fetch-Site", "cross-site")
	require.Equal(t, http.StatusForbidden, status)
	status, _ = fetch(t, url)
	require.Equal(t, http.StatusMethodNotAllowed, status)
}

func FuzzPercentage(f *testing.F) {
	for _, s := range []string{"", `{"percentage": 10}`, `{"percentage": 1e2}`, `{"percentage": 10}{"percentage": 11}`, "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		n, err := percentage(strings.NewReader(body))
		require.True(t, n >= 0 && n <= 100)
		if err != nil {
			require.Zero(t, n)
		}
	})
}
