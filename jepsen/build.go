package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// root is the folder of the module, wherever the command was started in it.
func root() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("where the module is: %w", err)
	}
	mod := strings.TrimSpace(string(out))
	if filepath.Base(mod) != "go.mod" {
		return "", fmt.Errorf("this must run inside the module, not with go.mod %q", mod)
	}
	return filepath.Dir(mod), nil
}

// buildFlags are those of go build that a run needs.
func (o *Options) buildFlags() (flags []string) {
	if o.Race {
		flags = append(flags, "-race")
	}
	if needsPoints(o) {
		flags = append(flags, "-tags", "faults")
	}
	return flags
}

// build makes a server. overlay, where it is not "", is the file for go build -overlay.
func build(ctx context.Context, to, overlay string, flags []string) error {
	return buildProgram(ctx, "./cmd/zkd", to, overlay, flags)
}

func buildProgram(ctx context.Context, program, to, overlay string, flags []string) error {
	dir, err := root()
	if err != nil {
		return err
	}
	args := append([]string{"build", "-o", to}, flags...)
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, program)...)
	cmd.Dir = dir
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s does not build: %w\n%s", program, err, &said)
	}
	return nil
}

// revision names the commit of the module, "" if that is not known.
func revision() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
