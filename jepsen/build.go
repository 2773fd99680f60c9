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

// build makes a server. overlay, where it is not "", is the file for go build -overlay.
func build(ctx context.Context, to, overlay string, race bool) error {
	dir, err := root()
	if err != nil {
		return err
	}
	args := []string{"build", "-o", to}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	if race {
		args = append(args, "-race")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./cmd/zkd")...)
	cmd.Dir = dir
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("the server does not build: %w\n%s", err, &said)
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
