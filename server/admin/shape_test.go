package admin

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// exact are the fields whose values are compared, too; of all others only the kind is.
var exact = strings.Fields(`
	command error server_state peer_state zabstate learner_type last_operation interest_ops
	outstanding_requests session_timeout last_cxid num_connections num_paths num_total_watches
	node_count synced_observers sid digest_version tracemask auth_failed_count max_client_cnxns
	tick_time min_session_timeout max_session_timeout client_port_listen_backlog
	num_alive_client_connections fsync_threshold_exceed_count`)

var (
	addressForm = regexp.MustCompile(`^(/?)[][0-9A-Za-z.:-]+:[0-9]+$`)
	hexForm     = regexp.MustCompile(`^0x[0-9a-f]+$`)
	numberForm  = regexp.MustCompile(`^[0-9]{5,}$`)
)

// shape is an answer with its values masked and the fields of objects in order of their
// names: ZooKeeper leaves that order to chance in some answers.
func shape(t *testing.T, answer string) string {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(answer))
	d.UseNumber()
	var v map[string]any
	require.NoError(t, d.Decode(&v), "%s", answer)
	delete(v, "zkd.version") // in environment: our own
	b, err := json.MarshalIndent(mask(v, ""), "", " ")
	require.NoError(t, err)
	return string(b) + "\n"
}

func mask(v any, field string) any {
	if slices.Contains(exact, field) {
		return v
	}
	switch v := v.(type) {
	case string:
		return maskText(v, field)
	case json.Number:
		if strings.Contains(v.String(), ".") {
			return "FLOAT"
		}
		return "INT"
	case []any:
		for i := range v {
			v[i] = mask(v[i], field)
		}
		if field == "digests" { // as many as there were transactions
			v = slices.CompactFunc(v, func(a, b any) bool { return reflect.DeepEqual(a, b) })
		}
		return v
	case map[string]any:
		out := map[string]any{}
		for _, key := range sortedKeys(v) {
			name := key
			if numberForm.MatchString(key) { // a time or a session
				name = "INT"
			}
			masked := mask(v[key], key)
			if list, ok := masked.([]any); ok && len(list) == 0 && out[name] != nil {
				continue // a bucket that has become empty, which ZooKeeper shows until it is due
			}
			out[name] = masked
		}
		return out
	}
	return v
}

func maskText(s, field string) string {
	switch {
	case field == "client_address": // known of this server only
		return "ADDRESS"
	case strings.HasPrefix(s, "/d") || strings.HasPrefix(s, "/zz"): // nodes of occupy
		return s
	case hexForm.MatchString(s):
		return "0xHEX"
	case addressForm.MatchString(s):
		return addressForm.ReplaceAllString(s, "${1}ADDRESS")
	}
	return "TEXT"
}

func sortedKeys(m map[string]any) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
