package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var someStamp = stamp{Version: "v1.2.3", Commit: strings.Repeat("0123abcd", 5), Date: "2026-11-22T10:00:00Z"}

func TestStampFromFlagsNeedsNoGit(t *testing.T) {
	s := someStamp
	require.NoError(t, s.fill(t.TempDir()))
	require.Equal(t, someStamp, s)
	require.Equal(t, time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC), s.time())
	s.Date = "yesterday"
	require.ErrorContains(t, s.fill(t.TempDir()), "write it as")
	none := stamp{}
	require.NoError(t, none.fill(t.TempDir()), "the sources of a release have no git")
	require.Equal(t, stamp{}, none)
	require.Equal(t, 1980, none.time().Year())
}

func TestArchivesAreReproducible(t *testing.T) {
	files := []packed{{"zkd", 0o755, []byte("binary")}, {"README.md", 0o644, []byte("text")}, {"docs/a.md", 0o644, nil}}
	var first, second bytes.Buffer
	require.NoError(t, pack(&first, "zkd-v1", someStamp.time(), files))
	files[0], files[2] = files[2], files[0]
	require.NoError(t, pack(&second, "zkd-v1", someStamp.time(), files))
	require.Equal(t, first.Bytes(), second.Bytes(), "the order in which files are found must not count")
	z, err := gzip.NewReader(&first)
	require.NoError(t, err)
	var names []string
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		names = append(names, h.Name)
		require.True(t, h.ModTime.Equal(someStamp.time()))
		require.Equal(t, h.Name == "zkd-v1/zkd", h.Mode == 0o755)
	}
	require.Equal(t, []string{"zkd-v1/README.md", "zkd-v1/docs/a.md", "zkd-v1/zkd"}, names)
}

func TestArchiveHasWhatItShould(t *testing.T) {
	root, err := moduleRoot()
	require.NoError(t, err)
	var names []string
	files, err := ownFiles(root, target{"darwin", "arm64"})
	require.NoError(t, err)
	for _, f := range files {
		names = append(names, f.name)
	}
	require.Subset(t, names, []string{"README.md", "LICENSE", "deploy/zoo.cfg", "docs/configuration.md"})
	_, err = ownFiles(t.TempDir(), target{"darwin", "arm64"})
	require.ErrorContains(t, err, "there is no README.md")
}

func TestSums(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "b"), []byte("b"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), nil, 0o600))
	require.NoError(t, writeSums(dir, []string{"b", "a"}))
	text, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	require.NoError(t, err)
	require.Equal(t, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  a\n"+
		"3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d  b\n", string(text))
}

func TestSymbolsBelongToPackages(t *testing.T) {
	modules := []string{"github.com/hashicorp/raft", "github.com/hashicorp/raft-boltdb/v2", "go.yaml.in/yaml/v3"}
	for _, tt := range []struct{ symbol, want string }{
		{"main.main", "cmd/zkd"},
		{"github.com/zkd-project/zkd/server/replication.(*Node).Propose", "server/replication"},
		{"github.com/zkd-project/zkd/config.integer[go.shape.int].func1", "config"},
		{"slices.SortFunc[github.com/zkd-project/zkd/wire.ACL]", "std/slices"},
		{"github.com/hashicorp/raft.NewRaft", "github.com/hashicorp/raft"},
		{"github.com/hashicorp/raft-boltdb/v2.New", "github.com/hashicorp/raft-boltdb/v2"},
		{"go.yaml.in/yaml/v3.Marshal", "go.yaml.in/yaml/v3"},
		{"crypto/internal/fips140/sha256.block", "std/crypto"},
		{"runtime.mallocgc", "std/runtime"},
		{"type:.eq.[2]string", "std/(types and tables)"},
		{"go:itab.*os.File,io.Reader", "std/(types and tables)"},
	} {
		require.Equal(t, tt.want, owner(tt.symbol, modules), tt.symbol)
	}
	require.Equal(t, "gopkg.in/yaml.v3", symbolPackage("gopkg.in/yaml%2ev3.Marshal"))
}

func TestSizeNamesWhatGrew(t *testing.T) {
	before := sizes{wholeBinary: 14_000_000, moduleCount: 23, "server": 100 << 10, "std/net": 600 << 10}
	now := sizes{wholeBinary: 14_060_000, moduleCount: 24, "server": 130 << 10, "std/net": 600 << 10, "example.org/new": 30 << 10}
	var out strings.Builder
	require.NoError(t, compare(before, now, &out))
	require.Contains(t, out.String(), "binary 14.06 MB (+60000 bytes")
	require.Contains(t, out.String(), "24 modules (+1)")
	require.Contains(t, out.String(), "+30720 example.org/new (30720 now, new)")
	require.Contains(t, out.String(), "+30720 server")
	require.NotContains(t, out.String(), "std/net")

	now[wholeBinary] = before[wholeBinary] + toleranceBytes + 1
	require.ErrorContains(t, compare(before, now, io.Discard), "grew by")
	now[wholeBinary] = maxBinaryBytes + 1
	require.ErrorContains(t, compare(sizes{wholeBinary: maxBinaryBytes, moduleCount: 1}, now, io.Discard), "allowed are 15000000")
	now = sizes{wholeBinary: 1, moduleCount: maxModules + 1}
	require.ErrorContains(t, compare(before, now, io.Discard), "36 modules are linked, allowed are 35")
}

func TestBaselineIsReadAsItIsWritten(t *testing.T) {
	s := sizes{wholeBinary: 14_000_001, moduleCount: 23, "server": 100<<10 + 100, "tiny": 10}
	back, err := parseSizes(s.format())
	require.NoError(t, err)
	require.Equal(t, sizes{wholeBinary: 14_000_001, moduleCount: 23, "server": 100 << 10}, back)
	for _, bad := range []string{"", "12\n", "many server\n", "12 server\n"} {
		_, err := parseSizes(bad)
		require.Error(t, err, bad)
	}
	root, err := moduleRoot()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(root, baselineFile))
	require.NoError(t, err)
	_, err = parseSizes(string(text))
	require.NoError(t, err)
}

func TestBOMIsValidAndTheSameEachTime(t *testing.T) {
	modules := []module{
		{Path: "std", Version: "1.26.8", Licence: "BSD-3-Clause"},
		{Path: "github.com/hashicorp/raft", Version: "v1.7.3", Sum: "h1:x=", Licence: "MPL-2.0"},
	}
	text, err := makeBOM(targets[0], someStamp, modules, []byte("binary"))
	require.NoError(t, err)
	require.NoError(t, validBOM(text))
	again, err := makeBOM(targets[0], someStamp, modules, []byte("binary"))
	require.NoError(t, err)
	require.Equal(t, string(text), string(again))
	other, err := makeBOM(targets[0], someStamp, modules, []byte("another binary"))
	require.NoError(t, err)
	require.NotEqual(t, serial(t, text), serial(t, other))

	for _, spoil := range [][2]string{
		{`"CycloneDX"`, `"cyclone"`},
		{"urn:uuid:", "uuid:"},
		{"2026-11-22T10:00:00Z", "yesterday"},
		{`"type": "library"`, `"type": "thing"`},
		{`"purl": "pkg:golang/std@`, `"purl": "golang/std@`},
		{`"dependsOn"`, `"needs"`},
		{`"ref": "pkg:golang/std@1.26.8"`, `"ref": "pkg:golang/else@1"`},
		{`"id": "MPL-2.0"`, `"id": ""`},
	} {
		bad := strings.Replace(string(text), spoil[0], spoil[1], 1)
		require.NotEqual(t, string(text), bad, spoil[0])
		require.Error(t, validBOM([]byte(bad)), "%v", spoil)
	}
}

func serial(t *testing.T, text []byte) string {
	t.Helper()
	var b bom
	require.NoError(t, json.Unmarshal(text, &b))
	return b.SerialNumber
}

func TestLicencesAreToldApart(t *testing.T) {
	for text, want := range map[string]string{
		"Mozilla Public License, version 2.0":                                                        "MPL-2.0",
		"                 Apache License\n           Version 2.0, January 2004":                      "Apache-2.0",
		"Permission is hereby granted, free of\ncharge, to any ... copies or\nsubstantial portions":  "MIT",
		"Redistribution and use in source and binary forms ... used to endorse or\npromote products": "BSD-3-Clause",
		"Redistribution and use in source and\nbinary forms, with or without":                        "BSD-2-Clause",
		"All rights reserved.": "",
	} {
		require.Equal(t, want, identify(text))
	}
	m := module{Path: "example.org/x", Dir: t.TempDir()}
	require.ErrorContains(t, m.readLicence(), "no licence that is known")
}

func TestWrongUseOfReleaseIsRefused(t *testing.T) {
	for _, args := range [][]string{nil, {"everything"}, {"size", "now"}, {"size", "--nope"}} {
		require.Error(t, run(args, io.Discard), "%v", args)
	}
}
