package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

type versionCmd struct{}

// Run prints one line: the module's version, and the Go version. A build from a checkout
// prints its revision instead.
func (versionCmd) Run(std streams) error {
	_, err := fmt.Fprintf(std.out, "gorxe %s %s %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
