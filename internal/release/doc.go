// Command release makes what a release consists of, and watches over its size.
//
//	go run ./internal/release dist      archives, SBOMs and checksums for all systems, in ./dist
//	go run ./internal/release binary    one binary, as the container image is built
//	go run ./internal/release check     what must hold of a release; CI runs it
//	go run ./internal/release size      what is in the binary; --update writes the new baseline
//
// Data flow: a stamp (version, commit, time, from git or from flags) and a target go into
// build, which runs the Go toolchain with everything set that could change a byte; what the
// toolchain has noted in the binary about its modules becomes the SBOM and the list of
// licences; pack puts the files into an archive with the time of the commit. So the same
// commit and the same Go release give the same files, whoever builds them and wherever.
//
// The size is watched because nobody notices a binary that grows by one module a month. What
// is linked is read from the symbol table, which release binaries do not have, so one more
// binary is linked for it.
package main
