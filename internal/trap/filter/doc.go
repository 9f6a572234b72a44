// Package filter decides which system calls of a program are trapped: a classic BPF
// program for seccomp, installed in the child that becomes the program.
//
// calls.go lists the calls, each with its rule. Calls that name a file are always
// trapped. Calls on a descriptor are trapped only if its number lies in the Range,
// where gorxe keeps its descriptors, in Range.Pollable below it, or in Range.Overflow above it.
// The calls fstat and statx are also trapped in Range.Files, between the first two.
// program.go makes the BPF program, and install.go puts it in force.
//
// The package knows numbers. It does not know how a trapped call is answered.
package filter
