package main

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/config"
)

func TestDurationsReadTheSameInBothFormats(t *testing.T) {
	for format, want := range map[string]string{"json": `"took":"62ms"`, "text": "took=62ms"} {
		var out bytes.Buffer
		slog.New(logHandler(&config.Config{LogFormat: format}, &out, slog.LevelInfo)).Info("ready", "took", 62*time.Millisecond)
		require.Contains(t, out.String(), want)
	}
}
