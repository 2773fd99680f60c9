package main

import (
	"io"
	"log/slog"
	"os"

	"github.com/zkd-project/zkd/config"
	"github.com/zkd-project/zkd/internal/logfile"
)

// logging is the log of the process: where it goes, and from which level on, which may change.
type logging struct {
	*slog.Logger
	level *slog.LevelVar
	file  *logfile.File // nil: standard error
}

// openLog opens the log that is configured.
func openLog(c *config.Config) (*logging, error) {
	l := &logging{level: new(slog.LevelVar)}
	var to io.Writer = os.Stderr
	if c.LogFile != "" {
		var err error
		if l.file, err = logfile.Open(c.LogFile, 0o640); err != nil {
			return nil, err
		}
		to = l.file
	}
	l.level.Set(levelOf(c))
	l.Logger = slog.New(logHandler(c, to, l.level))
	return l, nil
}

// reopen goes on in a new file, after the old one was moved away.
func (l *logging) reopen() error {
	if l.file == nil {
		return nil
	}
	return l.file.Reopen()
}

// last puts the error with which the process ends into the log, too, where that is a file: who
// looks there would find no reason, since main writes it to standard error.
func (l *logging) last(err error) error {
	if err != nil && l.file != nil {
		l.Error("the server ends", "error", err)
	}
	return err
}

// newLogger writes to standard error.
func newLogger(c *config.Config) *slog.Logger {
	return slog.New(logHandler(c, os.Stderr, levelOf(c)))
}

func levelOf(c *config.Config) slog.Level {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		return slog.LevelInfo
	}
	return level
}

func logHandler(c *config.Config, to io.Writer, level slog.Leveler) slog.Handler {
	o := &slog.HandlerOptions{Level: level}
	if c.LogFormat == "json" {
		o.ReplaceAttr = func(_ []string, a slog.Attr) slog.Attr {
			if a.Value.Kind() == slog.KindDuration { // "62ms" as in text, and not so many nanoseconds
				a.Value = slog.StringValue(a.Value.Duration().String())
			}
			return a
		}
		return slog.NewJSONHandler(to, o)
	}
	return slog.NewTextHandler(to, o)
}
