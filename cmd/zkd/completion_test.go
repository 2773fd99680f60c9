package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/freeport"
)

// bashCompletion stands in for the package of that name: it splits the words as bash has done,
// and joins what belongs to a host and port.
const bashCompletion = `
_get_comp_words_by_ref() { cur="${COMP_WORDS[COMP_CWORD]}"; prev="${COMP_WORDS[COMP_CWORD-1]}"; words=("${COMP_WORDS[@]}"); cword=$COMP_CWORD; }
__ltrim_colon_completions() { :; }
compopt() { :; }
source <(zkd completion bash)
COMP_WORDS=(zkd cli -server "$1" get "$2") COMP_CWORD=5 COMP_LINE="zkd cli -server $1 get $2" COMP_TYPE=9
COMP_POINT=${#COMP_LINE}
__start_zkd
printf '%s\n' "${COMPREPLY[@]}"
`

// The script for bash asks the server for paths.
func TestBashCompletesRemotePaths(t *testing.T) {
	bash, err := exec.LookPath("bash")
	require.NoError(t, err)
	addr := freeport.Addr(t)
	start(t, filepath.Join(t.TempDir(), "data"), addr)
	c := connect(t, addr)
	for _, path := range []string{"/app", "/app/one", "/app/other", "/apple"} {
		_, err := c.Create(path, nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
	}
	for word, want := range map[string]string{"/ap": "/app /apple", "/app/o": "/app/one /app/other", "/none": ""} {
		require.Eventually(t, func() bool { // a server that does not answer in a moment is not waited for
			cmd := exec.Command(bash, "--norc", "-c", bashCompletion, "bash", addr, word)
			cmd.Env = []string{"PATH=" + filepath.Dir(zkdBinary) + ":/usr/bin:/bin"}
			out, err := cmd.CombinedOutput()
			return err == nil && strings.Join(strings.Fields(string(out)), " ") == want
		}, patience, time.Millisecond, word)
	}
}
