package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// run finds the command and its flags. All commands work in the root of the module.
func run(args []string, out io.Writer) error {
	if len(args) == 0 {
		return fmt.Errorf("say what to do: dist, binary, check or size")
	}
	f := flag.NewFlagSet(args[0], flag.ContinueOnError)
	f.SetOutput(out)
	var s stamp
	f.StringVar(&s.Version, "version", "", "version, for example v1.2.3; default: what git says")
	f.StringVar(&s.Commit, "commit", "", "hash of the commit; default: what git says")
	f.StringVar(&s.Date, "date", "", "time of the commit, as 2026-11-22T10:00:00Z; default: what git says")
	output := f.String("output", "", "where the result goes; default ./dist, for binary ./zkd")
	goos := f.String("os", runtime.GOOS, "system (binary)")
	arch := f.String("arch", runtime.GOARCH, "architecture (binary)")
	update := f.Bool("update", false, "write the new baseline (size)")
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unknown argument %s", f.Arg(0))
	}
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	if err := s.fill(root); err != nil {
		return err
	}
	switch args[0] {
	case "dist":
		return dist(root, cmp.Or(*output, "dist"), s, out)
	case "binary":
		return build(root, target{*goos, *arch}, s, true, cmp.Or(*output, "zkd"))
	case "check":
		return check(root, s, out)
	case "size":
		return size(root, s, *update, out)
	}
	return fmt.Errorf("unknown command %s; known: dist, binary, check, size", args[0])
}
