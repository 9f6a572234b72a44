package main

import (
	"fmt"

	"github.com/gorxe/gorxe/internal/sys/buildinfo"
)

type versionCmd struct{}

// Help is the part of `gorxe version --help` above the flags.
func (versionCmd) Help() string {
	return `Prints the version, the commit and its date, and the release of Go. gorxe --version and gorxe -V do the same.

Examples:
  gorxe version`
}

// Run prints one line: the version, the commit and its date, and the Go version.
func (versionCmd) Run(std streams) error {
	_, err := fmt.Fprintf(std.out, "gorxe %v\n", buildinfo.Get())
	return err
}
