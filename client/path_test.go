package client

import "testing"

// What isPlain lets pass at a glance, the long look lets pass too.
func TestPlainPathsAreValid(t *testing.T) {
	const letters = "/.a ~\x1f\x7f\u00e9"
	plain := 0
	var try func(path string, more int)
	try = func(path string, more int) {
		if isPlain(path) {
			plain++
			if problem := pathProblem(path, false); problem != "" {
				t.Fatalf("%q passes, but %s", path, problem)
			}
		}
		if more == 0 {
			return
		}
		for _, r := range letters {
			try(path+string(r), more-1)
		}
	}
	try("", 6)
	if plain < 1000 {
		t.Fatalf("only %d plain paths were tried", plain)
	}
	if !isPlain("/services/web/instances/node-0000000001") {
		t.Fatal("a usual path is not plain")
	}
}
