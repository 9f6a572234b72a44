// Package daemon holds devices for programs that attach to it over a unix socket,
// and is the other side of that socket too: `gorxe run` and `gorxe status`.
package daemon
