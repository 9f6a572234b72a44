// Package daemon serves devices to programs. It runs an engine for each device and
// listens on the unix socket where keepers (package keeper) attach programs. A
// keeper hands over a seccomp listener; package trap answers the calls of the program
// behind it.
//
// The package must not know how a program is started: the keeper does that.
package daemon
