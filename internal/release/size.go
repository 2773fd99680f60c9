package main

import (
	"cmp"
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The limits of a release, and how far a binary may outgrow the baseline before somebody has
// to look and say, by writing a new one, that it is worth it.
const (
	maxBinaryBytes = 15_000_000
	maxModules     = 35
	toleranceBytes = 512 << 10
)

// baselineFile has a size and a name in each line; these two names are no package.
const (
	baselineFile = "internal/release/size.txt"
	wholeBinary  = "(binary)"
	moduleCount  = "(modules)"
)

// sizes are bytes of code and data by package of ours, by module of others, and by folder of
// the standard library.
type sizes map[string]int64

// checkLimits refuses a binary that may not be published.
func checkLimits(bytes int64, modules int) error {
	var errs []error
	if bytes > maxBinaryBytes {
		errs = append(errs, fmt.Errorf("the binary has %d bytes, allowed are %d", bytes, maxBinaryBytes))
	}
	if modules > maxModules {
		errs = append(errs, fmt.Errorf("%d modules are linked, allowed are %d", modules, maxModules))
	}
	return errors.Join(errs...)
}

// size compares the binary for linux-amd64 with the baseline.
func size(root string, s stamp, update bool, out io.Writer) error {
	work, err := os.MkdirTemp("", "zkd-size-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	binary := filepath.Join(work, "zkd")
	if err := build(root, targets[0], s, true, binary); err != nil {
		return err
	}
	now, err := measure(root, work, binary, s)
	if err != nil {
		return err
	}
	path := filepath.Join(root, filepath.FromSlash(baselineFile))
	if update {
		return os.WriteFile(path, []byte(now.format()), 0o644)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, err := parseSizes(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", baselineFile, err)
	}
	return compare(before, now, out)
}

// measure reads the sizes of a release binary, with the help of one that has symbols.
func measure(root, work, binary string, s stamp) (sizes, error) {
	info, err := os.Stat(binary)
	if err != nil {
		return nil, err
	}
	build1, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	symbols := filepath.Join(work, "zkd-symbols")
	if err := build(root, targets[0], s, false, symbols); err != nil {
		return nil, err
	}
	f, err := elf.Open(symbols)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	list, err := f.Symbols()
	if err != nil {
		return nil, err
	}
	var modules []string
	for _, d := range build1.Deps {
		modules = append(modules, d.Path)
	}
	now := sizes{wholeBinary: info.Size(), moduleCount: int64(len(modules))}
	for _, sym := range list {
		if t := elf.ST_TYPE(sym.Info); t == elf.STT_FUNC || t == elf.STT_OBJECT {
			if sym.Section < elf.SectionIndex(len(f.Sections)) && f.Sections[sym.Section].Type == elf.SHT_NOBITS {
				continue // takes no room in the file
			}
			now[owner(sym.Name, modules)] += int64(sym.Size)
		}
	}
	return now, nil
}

// owner says to whom the bytes of a symbol are put down: package, module or folder.
func owner(symbol string, modules []string) string {
	p := symbolPackage(symbol)
	if p == "main" {
		return "cmd/zkd"
	}
	if short, ours := strings.CutPrefix(p, modulePath+"/"); ours {
		return short
	}
	best := ""
	for _, m := range modules {
		if (p == m || strings.HasPrefix(p, m+"/")) && len(m) > len(best) {
			best = m
		}
	}
	if best != "" {
		return best
	}
	if p == "" {
		return "std/(types and tables)"
	}
	top, _, _ := strings.Cut(p, "/")
	return "std/" + top
}

// symbolPackage is the import path in a symbol's name: all up to the first dot behind the last
// slash, where type arguments, which contain other paths, do not count. The toolchain writes
// a dot in the last part of a path as %2e.
func symbolPackage(symbol string) string {
	if strings.HasPrefix(symbol, "go:") || strings.HasPrefix(symbol, "type:") || strings.HasPrefix(symbol, "$") {
		return "" // tables that belong to nobody alone
	}
	name, _, _ := strings.Cut(symbol, "[")
	slash := strings.LastIndexByte(name, '/')
	dot := strings.IndexByte(name[slash+1:], '.')
	if dot < 0 {
		return ""
	}
	return strings.ReplaceAll(name[:slash+1+dot], "%2e", ".")
}

// names are those of packages and the like, the largest first.
func (s sizes) names() []string {
	return slices.SortedFunc(maps.Keys(s), func(a, b string) int { return cmp.Or(cmp.Compare(s[b], s[a]), cmp.Compare(a, b)) })
}

// format is the text of the baseline. The sizes of packages are rounded, so that the file does
// not change with every commit.
func (s sizes) format() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# What is in the release binary for linux-amd64, in bytes. Written by:\n#\n#	go run ./internal/release size --update\n")
	for _, name := range s.names() {
		bytes := s[name]
		if name != moduleCount && name != wholeBinary {
			if bytes = (bytes + 512) >> 10 << 10; bytes == 0 {
				continue
			}
		}
		fmt.Fprintf(&b, "%9d %s\n", bytes, name)
	}
	return b.String()
}

func parseSizes(text string) (sizes, error) {
	s := sizes{}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		number, name, ok := strings.Cut(line, " ")
		bytes, err := strconv.ParseInt(number, 10, 64)
		if !ok || err != nil {
			return nil, fmt.Errorf("line %d is not a size and a name: %s", n, line)
		}
		s[name] = bytes
	}
	if s[wholeBinary] == 0 || s[moduleCount] == 0 {
		return nil, fmt.Errorf("there is no line with %s or %s", wholeBinary, moduleCount)
	}
	return s, nil
}

// compare prints what has grown, and fails if that is too much.
func compare(before, now sizes, out io.Writer) error {
	grown := now[wholeBinary] - before[wholeBinary]
	fmt.Fprintf(out, "binary %.2f MB (%+d bytes against the baseline), allowed %.0f MB; %d modules (%+d), allowed %d\n",
		float64(now[wholeBinary])/1e6, grown, float64(maxBinaryBytes)/1e6,
		now[moduleCount], now[moduleCount]-before[moduleCount], maxModules)
	by := sizes{}
	for name, bytes := range now {
		// Below this, rounding and the linker's choices.
		if d := bytes - before[name]; d >= 4<<10 && name != wholeBinary && name != moduleCount {
			by[name] = d
		}
	}
	for i, name := range by.names() {
		if i == 20 {
			fmt.Fprintf(out, "  and %d more that grew by less\n", len(by)-i)
			break
		}
		since := ""
		if before[name] == 0 {
			since = ", new"
		}
		fmt.Fprintf(out, "  %+9d %s (%d now%s)\n", by[name], name, now[name], since)
	}
	if err := checkLimits(now[wholeBinary], int(now[moduleCount])); err != nil {
		return err
	}
	if grown > toleranceBytes {
		return fmt.Errorf("the binary grew by %d bytes since the baseline, more than %d; if that is worth it: go run ./internal/release size --update",
			grown, toleranceBytes)
	}
	return nil
}
