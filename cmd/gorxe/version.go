package main

import (
	"fmt"

	"github.com/gorxe/gorxe/internal/buildinfo"
)

type versionCmd struct{}

// Run prints one line: the version, the commit and its date, and the Go version.
func (versionCmd) Run(std streams) error {
	_, err := fmt.Fprintf(std.out, "gorxe %v\n", buildinfo.Get())
	return err
}
