package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
)

// The software bill of materials: CycloneDX 1.5, https://cyclonedx.org/docs/1.5/json/. Only
// what is in the binary is in it, not what go.mod names for tests.
type bom struct {
	Format       string          `json:"bomFormat"`
	SpecVersion  string          `json:"specVersion"`
	SerialNumber string          `json:"serialNumber"`
	Version      int             `json:"version"`
	Metadata     bomMetadata     `json:"metadata"`
	Components   []bomComponent  `json:"components"`
	Dependencies []bomDependency `json:"dependencies"`
}

type bomMetadata struct {
	Timestamp string       `json:"timestamp"`
	Component bomComponent `json:"component"`
}

type bomComponent struct {
	Type       string        `json:"type"` // application or library
	Ref        string        `json:"bom-ref"`
	Name       string        `json:"name"`
	Version    string        `json:"version"`
	Purl       string        `json:"purl"`
	Hashes     []bomHash     `json:"hashes,omitempty"`
	Licenses   []bomLicense  `json:"licenses,omitempty"`
	Properties []bomProperty `json:"properties,omitempty"`
}

type bomHash struct {
	Alg     string `json:"alg"`
	Content string `json:"content"`
}

type bomLicense struct {
	License struct {
		ID string `json:"id"`
	} `json:"license"`
}

type bomProperty struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type bomDependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn,omitempty"`
}

func component(kind, path, version, licence string) bomComponent {
	purl := "pkg:golang/" + path + "@" + version
	c := bomComponent{Type: kind, Ref: purl, Name: path, Version: version, Purl: purl, Licenses: make([]bomLicense, 1)}
	c.Licenses[0].License.ID = licence
	return c
}

// makeBOM describes a binary.
func makeBOM(t target, s stamp, modules []module, binary []byte) ([]byte, error) {
	sum := sha256.Sum256(binary)
	main := component("application", modulePath, s.Version, "Apache-2.0")
	main.Hashes = []bomHash{{"SHA-256", hex.EncodeToString(sum[:])}}
	main.Properties = []bomProperty{
		{"zkd:commit", s.Commit},
		{"zkd:target", t.String()},
	}
	b := bom{
		Format: "CycloneDX", SpecVersion: "1.5", Version: 1,
		// A random number would make every build a new file: the binary decides.
		SerialNumber: uuid(sum),
		Metadata:     bomMetadata{Timestamp: s.time().Format(time.RFC3339), Component: main},
	}
	all := bomDependency{Ref: main.Ref}
	for _, m := range modules {
		c := component("library", m.Path, m.Version, m.Licence)
		if m.Sum != "" {
			c.Properties = []bomProperty{{"go:sum", m.Sum}}
		}
		b.Components = append(b.Components, c)
		b.Dependencies = append(b.Dependencies, bomDependency{Ref: c.Ref})
		all.DependsOn = append(all.DependsOn, c.Ref)
	}
	// The toolchain notes which modules are in a binary, not which of them needs which.
	b.Dependencies = append([]bomDependency{all}, b.Dependencies...)
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	err := e.Encode(b)
	return out.Bytes(), err
}

// uuid is a UUID of version 8, which is free to be made of anything.
func uuid(sum [32]byte) string {
	u := sum[:16]
	u[6], u[8] = u[6]&0x0f|0x80, u[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}
