package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	modulePath  = "github.com/zkd-project/zkd"
	packagePath = modulePath + "/cmd/zkd"
)

// A target is what a binary is for.
type target struct{ OS, Arch string }

func (t target) String() string { return t.OS + "-" + t.Arch }

// targets are those of a release.
var targets = []target{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}

// A stamp says what a binary was built from. Empty fields are not recorded.
type stamp struct {
	Version string // v1.2.3; between releases v1.2.3-4-g0123456789ab
	Commit  string // full hash
	Date    string // of the commit, RFC 3339: a build has no time of its own
}

// moduleRoot is the folder of go.mod.
func moduleRoot() (string, error) {
	out, err := output(".", nil, "go", "env", "GOMOD")
	if err != nil {
		return "", err
	}
	if filepath.Base(out) != "go.mod" {
		return "", errors.New("this is not a checkout of zkd: there is no go.mod here or above")
	}
	return filepath.Dir(out), nil
}

// fill takes what the flags left empty from git, and nothing where there is no git: the
// sources of a release may come as an archive.
func (s *stamp) fill(root string) error {
	if s.Date != "" {
		if _, err := time.Parse(time.RFC3339, s.Date); err != nil {
			return fmt.Errorf("--date %s: write it as 2026-11-22T10:00:00Z", s.Date)
		}
	}
	if s.Version != "" && s.Commit != "" && s.Date != "" {
		return nil
	}
	if top, err := output(root, nil, "git", "rev-parse", "--show-toplevel"); err != nil || !sameFile(top, root) {
		return nil
	}
	commit, err := output(root, nil, "git", "rev-parse", "HEAD")
	if err != nil {
		return nil // no commit yet
	}
	date, err := output(root, []string{"TZ=UTC"}, "git", "log", "-1", "--date=format-local:%Y-%m-%dT%H:%M:%SZ", "--format=%cd")
	if err != nil {
		return err
	}
	version, err := output(root, nil, "git", "describe", "--tags", "--match=v[0-9]*", "--dirty", "--abbrev=12")
	if err != nil { // no release yet
		version = "v0.0.0-0-g" + commit[:12]
	}
	for _, f := range []struct {
		field *string
		text  string
	}{{&s.Version, version}, {&s.Commit, commit}, {&s.Date, date}} {
		if *f.field == "" {
			*f.field = f.text
		}
	}
	return nil
}

func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// time is the time of the commit, 1980 without one: the oldest that every archive can hold.
func (s *stamp) time() time.Time {
	t, err := time.Parse(time.RFC3339, s.Date)
	if err != nil {
		return time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	return t.UTC()
}

// buildEnvironment is what the toolchain gets: all that could change a byte is set, whatever
// the environment of the person who builds says.
func buildEnvironment(t target) []string {
	env := slices.DeleteFunc(os.Environ(), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		return name == "GOFLAGS" || name == "GOEXPERIMENT" || name == "GODEBUG" || strings.HasPrefix(name, "CGO_")
	})
	return append(env, "CGO_ENABLED=0", "GOOS="+t.OS, "GOARCH="+t.Arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOEXPERIMENT=",
		"GOFIPS140=off", "GOWORK=off")
}

// buildTags leave out HTTP/2, half a megabyte that the ports for operators have no use for:
// nobody sends them many requests at once.
const buildTags = "nethttpomithttp2"

// build links one binary. Nothing of this machine gets in: no path (-trimpath), no state of
// the checkout but what the stamp says (-buildvcs=false), no id of the build itself. Without
// strip it has a symbol table.
func build(root string, t target, s stamp, strip bool, out string) error {
	// Functions begin at multiples of 16, not 32: 130 kB less on amd64.
	flags := "-buildid= -funcalign=16"
	if strip {
		flags += " -s -w"
	}
	for _, v := range []struct{ name, text string }{{"release", s.Version}, {"commit", s.Commit}, {"date", s.Date}} {
		if v.text != "" {
			flags += " -X " + modulePath + "/internal/version." + v.name + "=" + v.text
		}
	}
	abs, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	mode := "default"
	if t == (target{"darwin", "amd64"}) {
		// Go's default there is code that can be moved, whose relocations cost 2 %. Linux has
		// none either, and Apple's own chips demand it.
		mode = "exe"
	}
	_, err = output(root, buildEnvironment(t), "go", "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-buildmode="+mode,
		"-tags", buildTags, "-ldflags", flags, "-o", abs, packagePath)
	return err
}

// output runs a command in dir and returns what it prints, without the last line break. env
// is the whole environment if it names a PATH, else an addition to it; nil: the same.
func output(dir string, env []string, name string, args ...string) (string, error) {
	c := exec.Command(name, args...)
	c.Dir = dir
	if env != nil {
		c.Env = append(os.Environ(), env...)
		if slices.ContainsFunc(env, func(pair string) bool { return strings.HasPrefix(pair, "PATH=") }) {
			c.Env = env
		}
	}
	out, err := c.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
		}
		return "", fmt.Errorf("%s %s: %w", name, args[0], err)
	}
	return strings.TrimRight(string(out), "\r\n"), nil
}
