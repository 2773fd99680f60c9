package version

import (
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// Compatible is the version of Apache ZooKeeper whose behaviour zkd follows. Clients and
// scripts that look for a version to decide what a server can do find this one.
const Compatible = "3.9.5"

// Set at build time, as in
//
//	go build -ldflags "-X github.com/zkd-project/zkd/internal/version.release=v1.2.3"
var (
	release string // v1.2.3
	commit  string // full hash
	date    string // RFC 3339
)

const modulePath = "github.com/zkd-project/zkd"

// unknown stands for a commit that nobody recorded, as in the binary of a test.
const unknown = "unknown"

// Info says where a binary comes from.
type Info struct {
	Release string    // zkd's own version such as v1.2.3, "devel" for a build from a checkout
	Commit  string    // hash, possibly shortened, "unknown" when not recorded
	Built   time.Time // of the build, else of the commit, in UTC; 1970 when not recorded
	Dirty   bool      // the checkout had changes that are in no commit
}

// Get returns the Info of this binary.
var Get = sync.OnceValue(func() Info {
	bi, _ := debug.ReadBuildInfo()
	return gather(release, commit, date, bi)
})

// Full is the version as ZooKeeper's srvr, mntr and envi show it:
//
//	<major>.<minor>.<micro>[-<qualifier>]-<hash>, built on <date>
//
// kazoo reads the leading digits and dots; others match [A-Za-z0-9.-]+ up to the comma, and
// zkd keeps to these characters. The qualifier is what tells zkd from ZooKeeper.
func (i Info) Full() string {
	qualifier := "-zkd"
	if i.Dirty {
		qualifier += "-dirty"
	}
	return Compatible + qualifier + "-" + i.Commit + ", built on " + i.Built.UTC().Format("2006-01-02 15:04 MST")
}

// String is one line for people: release, commit and time.
func (i Info) String() string {
	c := i.Commit
	if i.Dirty {
		c += ", with local changes"
	}
	return "zkd " + i.Release + " (" + c + ", " + i.Built.UTC().Format(time.RFC3339) + "), as ZooKeeper " + Compatible
}

// gather takes each part from the linker's variables, else from the build information.
func gather(release, commit, date string, bi *debug.BuildInfo) Info {
	i := Info{Release: "devel", Commit: unknown, Built: time.Unix(0, 0).UTC()}
	if bi != nil {
		if bi.Main.Path == modulePath {
			i.fromVersion(bi.Main.Version)
			i.fromSettings(bi.Settings)
		} else {
			// Another program contains zkd: the settings speak of that program's checkout.
			for _, dep := range bi.Deps {
				if dep.Path == modulePath {
					i.fromVersion(dep.Version)
				}
			}
		}
	}
	if release != "" {
		i.Release = release
	}
	if isHash(commit) {
		i.Commit, i.Dirty = commit, false
	}
	if t, err := time.Parse(time.RFC3339, date); err == nil {
		i.Built = t.UTC()
	}
	return i
}

func (i *Info) fromSettings(settings []debug.BuildSetting) {
	for _, s := range settings {
		switch s.Key {
		case "vcs.revision":
			if isHash(s.Value) {
				i.Commit = s.Value
			}
		case "vcs.time":
			if t, err := time.Parse(time.RFC3339, s.Value); err == nil {
				i.Built = t.UTC()
			}
		case "vcs.modified":
			i.Dirty = s.Value == "true"
		}
	}
}

// fromVersion reads a module version. A pseudo-version tells time and commit, as
// v0.0.0-20261121100000-0123456789ab or v1.2.4-0.20261121100000-0123456789ab.
func (i *Info) fromVersion(v string) {
	if v == "" || v == "(devel)" {
		return
	}
	i.Release = v
	v, meta, _ := strings.Cut(v, "+")
	i.Dirty = strings.Contains(meta, "dirty")
	parts := strings.Split(v, "-")
	if len(parts) < 3 {
		return
	}
	stamp := parts[len(parts)-2]
	if dot := strings.LastIndexByte(stamp, '.'); dot >= 0 {
		stamp = stamp[dot+1:]
	}
	t, err := time.Parse("20060102150405", stamp)
	if hash := parts[len(parts)-1]; err == nil && isHash(hash) {
		i.Commit, i.Built = hash, t.UTC()
	}
}

// isHash keeps anything out of the version line that its readers would not expect.
func isHash(s string) bool {
	for _, c := range s {
		if !strings.ContainsRune("0123456789abcdef", c) {
			return false
		}
	}
	return s != ""
}
