package replication

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"slices"

	"github.com/hashicorp/go-hclog"
)

// raftLogger gives raft's log lines to a slog.Logger, one level lower than raft rates
// them: what an operator must know of it, this package says itself. raft's metrics go
// where go-metrics sends them by default, which is nowhere.
type raftLogger struct {
	l    *slog.Logger
	name string
	args []any
}

var _ hclog.Logger = (*raftLogger)(nil)

func newRaftLogger(l *slog.Logger) *raftLogger {
	return &raftLogger{l: l.With("from", "raft"), name: "raft"}
}

func slogLevel(level hclog.Level) slog.Level {
	switch level {
	case hclog.Error:
		return slog.LevelWarn
	case hclog.Warn:
		return slog.LevelInfo
	default:
		return slog.LevelDebug
	}
}

// Log implements hclog.Logger; so do all the others.
func (r *raftLogger) Log(level hclog.Level, msg string, args ...any) {
	to := slogLevel(level)
	if !r.l.Enabled(context.Background(), to) {
		return
	}
	args = slices.Clone(args)
	for i, a := range args {
		if f, ok := a.(hclog.Format); ok && len(f) > 0 {
			if format, ok := f[0].(string); ok {
				args[i] = fmt.Sprintf(format, f[1:]...)
			}
		}
	}
	r.l.Log(context.Background(), to, msg, args...)
}

func (r *raftLogger) Trace(msg string, args ...any) { r.Log(hclog.Trace, msg, args...) }
func (r *raftLogger) Debug(msg string, args ...any) { r.Log(hclog.Debug, msg, args...) }
func (r *raftLogger) Info(msg string, args ...any)  { r.Log(hclog.Info, msg, args...) }
func (r *raftLogger) Warn(msg string, args ...any)  { r.Log(hclog.Warn, msg, args...) }
func (r *raftLogger) Error(msg string, args ...any) { r.Log(hclog.Error, msg, args...) }

func (r *raftLogger) enabled(level slog.Level) bool {
	return r.l.Enabled(context.Background(), level)
}

func (r *raftLogger) IsTrace() bool { return r.enabled(slog.LevelDebug) }
func (r *raftLogger) IsDebug() bool { return r.enabled(slog.LevelDebug) }
func (r *raftLogger) IsInfo() bool  { return r.enabled(slog.LevelDebug) }
func (r *raftLogger) IsWarn() bool  { return r.enabled(slog.LevelInfo) }
func (r *raftLogger) IsError() bool { return r.enabled(slog.LevelWarn) }

func (r *raftLogger) ImpliedArgs() []any { return r.args }
func (r *raftLogger) Name() string       { return r.name }

func (r *raftLogger) With(args ...any) hclog.Logger {
	return &raftLogger{l: r.l.With(args...), name: r.name, args: append(r.args[:len(r.args):len(r.args)], args...)}
}

func (r *raftLogger) Named(name string) hclog.Logger      { return r.ResetNamed(r.name + "." + name) }
func (r *raftLogger) ResetNamed(name string) hclog.Logger { return &raftLogger{r.l, name, r.args} }
func (r *raftLogger) SetLevel(hclog.Level)                {}
func (r *raftLogger) GetLevel() hclog.Level               { return hclog.Debug }
func (r *raftLogger) StandardLogger(*hclog.StandardLoggerOptions) *log.Logger {
	return slog.NewLogLogger(r.l.Handler(), slog.LevelDebug)
}

func (r *raftLogger) StandardWriter(o *hclog.StandardLoggerOptions) io.Writer {
	return r.StandardLogger(o).Writer()
}
