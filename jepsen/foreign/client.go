package foreign

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/jepsen/workload"
)

// A Client is a library that others have written, with the program that drives it.
type Client struct {
	// Name is what it is chosen by.
	Name string
	// Doc is what it is.
	Doc string
	// files are what it needs on this machine, by the package of Debian that has them.
	files map[string][]string
	// prepare makes in a folder what command needs there; nil: nothing.
	prepare func(ctx context.Context, dir string) error
	// command is the program; the servers and the timeout of sessions in ms follow.
	command func(dir string) []string
}

// Clients are all that there are.
func Clients() []Client { return []Client{kazoo(), java()} }

// Find returns the client of the name.
func Find(name string) (Client, error) {
	var names []string
	for _, c := range Clients() {
		if c.Name == name {
			return c, nil
		}
		names = append(names, c.Name)
	}
	return Client{}, fmt.Errorf("there is no client %q; there are %s", name, strings.Join(names, ", "))
}

// Unavailable says why this machine cannot run it; "" if it can.
func (c *Client) Unavailable() string {
	for pkg, files := range c.files {
		for _, file := range files {
			if _, err := os.Stat(file); err != nil {
				return fmt.Sprintf("%s is not here; on Debian: apt-get install %s", file, pkg)
			}
		}
	}
	return ""
}

// Workloads are those that drive it, by the names that those of the test client have.
func (c *Client) Workloads() []workload.Workload {
	return []workload.Workload{c.registerWorkload(), c.lockWorkload()}
}

// root is below which all of them work.
const root = "/foreign"

// setup prepares the programs, and the tree.
func (c *Client) setup(ctx context.Context, e *workload.Env) error {
	if c.prepare != nil {
		if err := c.prepare(ctx, e.Dir); err != nil {
			return err
		}
	}
	return e.Root(ctx, root)
}

//go:embed client.py
var pythonProgram string

func kazoo() Client {
	// This is the interpreter that Debian's library is installed for; another one may come first in the PATH.
	const python = "/usr/bin/python3"
	return Client{
		Name:    "kazoo",
		Doc:     "Python's library",
		files:   map[string][]string{"python3-kazoo": {python, "/usr/lib/python3/dist-packages/kazoo/client.py"}},
		command: func(string) []string { return []string{python, "-B", "-c", pythonProgram} },
	}
}

//go:embed Client.java
var javaProgram []byte

func java() Client {
	const runtime, compiler, folder = "/usr/bin/java", "/usr/bin/javac", "/usr/share/java/"
	files := map[string][]string{
		"default-jdk-headless":    {runtime, compiler},
		"libzookeeper-java":       {folder + "zookeeper.jar", folder + "zookeeper-jute.jar"},
		"libcurator-recipes-java": {folder + "curator-recipes.jar", folder + "curator-framework.jar", folder + "curator-client.jar", folder + "guava.jar"},
		"libslf4j-java":           {folder + "slf4j-api.jar", folder + "slf4j-nop.jar"},
	}
	var jars []string
	for _, list := range files {
		for _, file := range list {
			if strings.HasSuffix(file, ".jar") {
				jars = append(jars, file)
			}
		}
	}
	slices.Sort(jars)
	classes := func(dir string) string { return filepath.Join(dir, "classes") }
	path := func(dir string) string { return strings.Join(append([]string{classes(dir)}, jars...), ":") }
	return Client{
		Name:  "java",
		Doc:   "Java's own client, and the recipe of Curator",
		files: files,
		prepare: func(ctx context.Context, dir string) error {
			source := filepath.Join(dir, "Client.java")
			if err := os.WriteFile(source, javaProgram, 0o600); err != nil {
				return err
			}
			out, err := exec.CommandContext(ctx, compiler, "-nowarn", "-proc:none", "-encoding", "UTF-8", "-cp", path(dir), "-d", classes(dir), source).CombinedOutput()
			if err != nil {
				return fmt.Errorf("the program for Java does not compile: %w\n%s", err, out)
			}
			return nil
		},
		command: func(dir string) []string {
			// Most of them live for seconds: they had better start soon than run fast.
			return []string{
				runtime, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Xmx128m", "-Djava.awt.headless=true",
				"-cp", path(dir), "Client",
			}
		},
	}
}
