package version

import (
	"regexp"
	"runtime/debug"
	"testing"
)

const hash = "0123456789abcdef0123456789abcdef01234567"

func TestWhereTheVersionComesFrom(t *testing.T) {
	checkout := []debug.BuildSetting{
		{Key: "vcs.revision", Value: hash},
		{Key: "vcs.time", Value: "2026-11-21T12:00:59+02:00"},
		{Key: "vcs.modified", Value: "true"},
	}
	tests := []struct {
		name                  string
		release, commit, date string
		bi                    *debug.BuildInfo
		full, line            string
	}{
		{
			"nothing recorded", "", "", "", nil,
			"3.9.5-zkd-unknown, built on 1970-01-01 00:00 UTC",
			"zkd devel (unknown, 1970-01-01T00:00:00Z), as ZooKeeper 3.9.5",
		},
		{
			"linker variables win", "v1.2.3", hash, "2026-11-21T10:00:00Z",
			&debug.BuildInfo{Main: debug.Module{Path: modulePath, Version: "(devel)"}, Settings: checkout},
			"3.9.5-zkd-" + hash + ", built on 2026-11-21 10:00 UTC",
			"zkd v1.2.3 (" + hash + ", 2026-11-21T10:00:00Z), as ZooKeeper 3.9.5",
		},
		{
			"a checkout with changes", "", "", "",
			&debug.BuildInfo{Main: debug.Module{Path: modulePath, Version: "(devel)"}, Settings: checkout},
			"3.9.5-zkd-dirty-" + hash + ", built on 2026-11-21 10:00 UTC",
			"zkd devel (" + hash + ", with local changes, 2026-11-21T10:00:59Z), as ZooKeeper 3.9.5",
		},
		{
			"installed by version", "", "", "",
			&debug.BuildInfo{Main: debug.Module{Path: modulePath, Version: "v0.3.0"}},
			"3.9.5-zkd-unknown, built on 1970-01-01 00:00 UTC",
			"zkd v0.3.0 (unknown, 1970-01-01T00:00:00Z), as ZooKeeper 3.9.5",
		},
		{
			"contained in another program", "", "", "",
			&debug.BuildInfo{
				Main: debug.Module{Path: "example.com/app", Version: "v9.9.9"}, Settings: checkout,
				Deps: []*debug.Module{{Path: "example.com/x", Version: "v1.0.0"}, {Path: modulePath, Version: "v1.2.4-0.20261121100000-0123456789ab"}},
			},
			"3.9.5-zkd-0123456789ab, built on 2026-11-21 10:00 UTC",
			"zkd v1.2.4-0.20261121100000-0123456789ab (0123456789ab, 2026-11-21T10:00:00Z), as ZooKeeper 3.9.5",
		},
		{
			"nonsense is left out", "", "not a hash, nor is this", "yesterday", nil,
			"3.9.5-zkd-unknown, built on 1970-01-01 00:00 UTC",
			"zkd devel (unknown, 1970-01-01T00:00:00Z), as ZooKeeper 3.9.5",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			i := gather(tt.release, tt.commit, tt.date, tt.bi)
			if got := i.Full(); got != tt.full {
				t.Errorf("full\n got %s\nwant %s", got, tt.full)
			}
			if got := i.String(); got != tt.line {
				t.Errorf("line\n got %s\nwant %s", got, tt.line)
			}
		})
	}
}

// How tools read the version: kazoo's ENVI_VERSION, and the pattern of go-zookeeper's
// FLWSrvr up to the date (whose form ZooKeeper changed in 3.7, which that parser has not
// followed).
func TestToolsReadTheVersion(t *testing.T) {
	full := gather("", hash, "2026-11-21T10:00:00Z", nil).Full()
	if m := regexp.MustCompile(`(?s)^([\d\.]*).*`).FindStringSubmatch(full); m == nil || m[1] != Compatible {
		t.Errorf("kazoo reads %q from %q", m, full)
	}
	if !regexp.MustCompile(`^[A-Za-z0-9\.\-]+, built on \d{4}-\d\d-\d\d \d\d:\d\d UTC$`).MatchString(full) {
		t.Errorf("the version line is %q", full)
	}
	if Get().Full() == "" {
		t.Error("no version of this binary")
	}
}
