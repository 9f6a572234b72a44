// Package daemon holds devices for programs: it runs an engine for each, serves
// the unix socket that keepers (package keeper) attach programs at, and has the
// client's side of that socket. Who attaches hands over a seccomp listener; what
// the program behind it calls is answered by package interpose.
//
// The package must not know the verbs, and not how a program is started.
package daemon
