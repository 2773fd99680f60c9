package mutants

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A Change replaces a text in a file of the module, or adds a file where Old is "".
type Change struct {
	File, Old, New string
}

// Overlay writes the changed files to dir, and the file for go build -overlay, whose name it
// returns. root is the folder of the module.
func Overlay(root, dir string, changes []Change) (string, error) {
	texts := map[string]string{}
	for _, c := range changes {
		path := filepath.Join(root, filepath.FromSlash(c.File))
		if c.Old == "" {
			texts[path] = c.New
			continue
		}
		text, ok := texts[path]
		if !ok {
			b, err := os.ReadFile(path)
			if err != nil {
				return "", err
			}
			text = string(b)
		}
		if n := strings.Count(text, c.Old); n != 1 {
			return "", fmt.Errorf("%s has the text %q %d times, not once: the change must be fitted to the source", c.File, c.Old, n)
		}
		texts[path] = strings.Replace(text, c.Old, c.New, 1)
	}
	replace := map[string]string{}
	for path, text := range texts {
		to := filepath.Join(dir, fmt.Sprintf("overlay-%d.go", len(replace)))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[path] = to
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "overlay.json")
	return name, os.WriteFile(name, b, 0o600)
}
