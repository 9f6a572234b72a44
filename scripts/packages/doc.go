// Command packages makes what a release consists of: archives, packages, SBOMs and
// checksums. It reads .goreleaser.yaml and needs no network once its modules are there.
//
//	go run . -root ../.. -out ../../bin/packages
//
// It is a module of its own, so that users of the library do not see what it imports. It
// understands the part of .goreleaser.yaml that this project uses.
package main
