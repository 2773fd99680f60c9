package needs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

type judged struct{ verdict string }

func (j *judged) Helper()      {}
func (j *judged) Fatal(...any) { j.verdict += "failed " }
func (j *judged) Skip(...any)  { j.verdict += "skipped" }

func TestWhatIsRequiredFails(t *testing.T) {
	for value, want := range map[string]string{"": "skipped", "require": "failed skipped"} { // Fatal does not return, but here
		t.Setenv("ZKD_INTEROP", value)
		var j judged
		Unavailable(&j, "it is not here")
		require.Equal(t, want, j.verdict)
	}
}
