// Package script runs data-driven tests: text files of commands and what each one prints.
//
// A file is read by people first:
//
//	# A sequence number is never given twice, even after a delete.
//	create /q/n- sequential   →  /q/n-0000000000
//	delete /q/n-0000000000    →  ok
//	children /q
//	----
//	n-0000000001
//	n-0000000002
//
// A line that starts with # is a comment. What a command prints stands after the arrow if
// it is one line, else below a line of four dashes and up to the next empty line; a command
// that prints nothing stands alone. A command that ends in { takes the lines up to } as
// its input. A word is what stands between spaces, or a Go string in quotes; name="a b" is
// one word too.
//
// Data flow: Run reads the files, has a fresh interpreter for each (start), feeds it every
// command and compares. With -rewrite the files are written anew with what was printed,
// arrows aligned: read the diff, it is the test.
package script
