package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zkd-project/zkd/internal/cli"
	"github.com/zkd-project/zkd/internal/version"
)

// manCommand writes the manual pages that a release ships. They come from the same texts as
// --help, so they cannot say anything else.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write the manual pages into a folder",
		Hidden: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("name one folder for the pages, for example: zkd man ./man")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			for _, p := range manPages(c.Root()) {
				if err := os.WriteFile(filepath.Join(args[0], p.name), p.text, 0o644); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// A manPage is a file in the language of man(7).
type manPage struct {
	name string
	text []byte
}

// manPages returns a page for a command and for each below it that is not hidden.
func manPages(c *cobra.Command) []manPage {
	c.InitDefaultHelpFlag()
	pages := []manPage{{manName(c) + ".1", manText(c)}}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && !sub.IsAdditionalHelpTopicCommand() {
			pages = append(pages, manPages(sub)...)
		}
	}
	return pages
}

// manName is the name of a page: zkd-member-add for `zkd member add`.
func manName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manText is one page. It bears no date: equal sources give equal pages.
func manText(c *cobra.Command) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"zkd %s\" \"zkd manual\"\n", roff(strings.ToUpper(manName(c))), roff(version.Get().Release))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(manName(c)), roff(c.Short))
	b.WriteString(".SH SYNOPSIS\n.nf\n")
	if c.Runnable() {
		line := c.UseLine()
		if c.DisableFlagParsing { // its options are in it
			line = strings.TrimSuffix(line, " [flags]")
		}
		fmt.Fprintf(&b, "\\fB%s\\fR\n", roff(line))
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\\fB%s\\fR\n", roff(c.CommandPath()+" COMMAND …"))
	}
	b.WriteString(".fi\n")
	if c.Long != "" {
		b.WriteString(".SH DESCRIPTION\n")
		paragraphs(&b, c.Long)
	}
	if c.Name() == "cli" && c.HasParent() {
		cliReference(&b)
	} else {
		flagList(&b, "OPTIONS", c.NonInheritedFlags())
		flagList(&b, "OPTIONS OF ALL COMMANDS", c.InheritedFlags())
	}
	commandList(&b, c)
	if c.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roff(strings.TrimRight(c.Example, "\n")))
	}
	if !c.HasParent() {
		fmt.Fprintf(&b, ".SH EXIT STATUS\n.TP\n%d\nok\n.TP\n%d\nthe command or the configuration is wrong\n.TP\n%d\nthe server could not keep its promises: a disk error, damaged data\n", exitOK, exitUsage, exitBroken)
	}
	if c.HasParent() {
		fmt.Fprintf(&b, ".SH SEE ALSO\n\\fB%s\\fR(1)\n", roff(manName(c.Parent())))
	}
	return b.Bytes()
}

func commandList(b *bytes.Buffer, c *cobra.Command) {
	if !c.HasAvailableSubCommands() {
		return
	}
	b.WriteString(".SH COMMANDS\n")
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			fmt.Fprintf(b, ".TP\n\\fB%s\\fR(1)\n%s\n", roff(manName(sub)), roff(sub.Short))
		}
	}
}

func flagList(b *bytes.Buffer, title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	fmt.Fprintf(b, ".SH %s\n", title)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		value, about := pflag.UnquoteUsage(f)
		if value != "" {
			name += " " + value
		}
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" && f.DefValue != "[]" {
			about += " (default " + f.DefValue + ")"
		}
		entry(b, name, about)
	})
}

// cliReference describes the shell, whose options are not cobra's.
func cliReference(b *bytes.Buffer) {
	r := cli.Describe()
	for _, part := range []struct {
		title   string
		entries []cli.Entry
	}{{"OPTIONS", r.Options}, {"COMMANDS", r.Commands}, {"EXIT STATUS", r.ExitCodes}} {
		fmt.Fprintf(b, ".SH %s\n", part.title)
		for _, e := range part.entries {
			entry(b, e.Name, e.About)
		}
	}
}

func entry(b *bytes.Buffer, name, about string) {
	fmt.Fprintf(b, ".TP\n\\fB%s\\fR\n%s\n", roff(name), roff(about))
}

// paragraphs writes text whose paragraphs have an empty line between them. One that is indented
// keeps its lines.
func paragraphs(b *bytes.Buffer, text string) {
	for i, p := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		if strings.HasPrefix(p, " ") || strings.Contains(p, "\n ") {
			fmt.Fprintf(b, ".nf\n%s\n.fi\n", roff(p))
			continue
		}
		b.WriteString(roff(p) + "\n")
	}
}

// roff makes a text mean itself: man takes a backslash, a dash, and a dot or quote at the start
// of a line for its own.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", "...").Replace(s)
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}
