package main

import (
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A module is one that is linked into a binary.
type module struct {
	Path, Version string
	Sum           string // of go.sum
	Dir           string // in the module cache
	Licence       string // SPDX identifier
	Texts         []licenceText
}

// A licenceText is a file with a licence or a notice that goes with every binary.
type licenceText struct{ Name, Text string }

// linkedModules are the modules of a binary, as the toolchain has noted them, Go itself first.
func linkedModules(root, binary string) ([]module, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	goroot, err := output(root, nil, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	list := []module{{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go"), Dir: goroot}}
	paths := []string{"list", "-m", "-json"}
	for _, d := range info.Deps {
		if d.Replace != nil {
			return nil, fmt.Errorf("%s is replaced by %s; a release is made of published modules", d.Path, d.Replace.Path)
		}
		list = append(list, module{Path: d.Path, Version: d.Version, Sum: d.Sum})
		paths = append(paths, d.Path)
	}
	text, err := output(root, buildEnvironment(targets[0]), "go", paths...)
	if err != nil {
		return nil, err
	}
	dirs := map[string]string{}
	for d := json.NewDecoder(strings.NewReader(text)); ; {
		var m struct{ Path, Dir string }
		err := d.Decode(&m)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		dirs[m.Path] = m.Dir
	}
	for i := range list {
		if i > 0 {
			list[i].Dir = dirs[list[i].Path]
		}
		if err := list[i].readLicence(); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// readLicence finds the files that have to go along. A module without a licence may not be
// distributed at all.
func (m *module) readLicence() error {
	entries, err := os.ReadDir(m.Dir)
	if err != nil {
		return fmt.Errorf("%s: %w", m.Path, err)
	}
	for _, e := range entries {
		name := strings.ToUpper(e.Name())
		if e.IsDir() || !slices.ContainsFunc([]string{"LICENSE", "LICENCE", "COPYING", "NOTICE", "PATENTS"}, func(p string) bool { return strings.HasPrefix(name, p) }) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(m.Dir, e.Name()))
		if err != nil {
			return err
		}
		m.Texts = append(m.Texts, licenceText{e.Name(), string(text)})
		if m.Licence == "" {
			m.Licence = identify(string(text))
		}
	}
	if m.Licence == "" {
		return fmt.Errorf("%s: no licence that is known was found in %s", m.Path, m.Dir)
	}
	return nil
}

// identify tells the licences apart that Go modules commonly have, by words that only they
// have.
func identify(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	for _, l := range []struct {
		id    string
		words []string
	}{
		{"MPL-2.0", []string{"Mozilla Public License", "2.0"}},
		{"Apache-2.0", []string{"Apache License", "Version 2.0"}},
		{"BSD-3-Clause", []string{"Redistribution and use in source and binary forms", "endorse or promote"}},
		{"BSD-2-Clause", []string{"Redistribution and use in source and binary forms"}},
		{"MIT", []string{"Permission is hereby granted, free of charge", "substantial portions"}},
		{"ISC", []string{"Permission to use, copy, modify, and/or distribute"}},
	} {
		if !slices.ContainsFunc(l.words, func(w string) bool { return !strings.Contains(text, w) }) {
			return l.id
		}
	}
	return ""
}

// thirdParty is the file with the licences of all that is linked.
func thirdParty(modules []module) string {
	var b strings.Builder
	b.WriteString("zkd contains the Go standard library and these modules, under the licences below.\n")
	for _, m := range modules {
		for _, t := range m.Texts {
			fmt.Fprintf(&b, "\n%s\n%s %s: %s\n%s\n\n%s\n", strings.Repeat("=", 80), m.Path, m.Version, t.Name, strings.Repeat("=", 80), strings.TrimSpace(t.Text))
		}
	}
	return b.String()
}
