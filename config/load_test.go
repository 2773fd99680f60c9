package config

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "renew the golden files in testdata")

// TestFiles loads testdata/load/*.cfg and compares problems, warnings, and what differs from
// the defaults with the .golden file beside it.
func TestFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/load/*.cfg")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			got := render(t, file)
			golden := strings.TrimSuffix(file, ".cfg") + ".golden"
			if *rewrite {
				if err := os.WriteFile(golden, []byte(got), 0o666); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s: got\n%s\nwant\n%s", file, got, want)
			}
		})
	}
}

func render(t *testing.T, file string) string {
	t.Helper()
	var b strings.Builder
	cfg, warnings, err := Load(Sources{File: file})
	for _, w := range warnings {
		fmt.Fprintf(&b, "warning: %s\n", w)
	}
	if err != nil {
		fmt.Fprintf(&b, "%v\n", err)
		return b.String()
	}
	none := Sources{File: "none", ReadFile: func(name string) ([]byte, error) {
		if name == "none" {
			return []byte("dataDir=/none"), nil
		}
		return nil, os.ErrNotExist
	}}
	defaults, _, err := Load(none)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*Config{cfg, defaults} {
		c.Settings, c.InitialConfig = nil, ""
	}
	differences(&b, "", reflect.ValueOf(*defaults), reflect.ValueOf(*cfg))
	return b.String()
}

// differences prints each field of got that is not as in the defaults.
func differences(b *strings.Builder, name string, def, got reflect.Value) {
	if reflect.DeepEqual(def.Interface(), got.Interface()) {
		return
	}
	if _, secret := got.Interface().(Secret); got.Kind() != reflect.Struct || secret {
		fmt.Fprintf(b, "%s = %v\n", name, got.Interface())
		return
	}
	for i := range got.NumField() {
		field := got.Type().Field(i).Name
		if name != "" {
			field = name + "." + field
		}
		differences(b, field, def.Field(i), got.Field(i))
	}
}
