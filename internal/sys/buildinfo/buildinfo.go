// Package buildinfo says which version of gorxe this is.
package buildinfo

import (
	"cmp"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// A release sets these with the linker's -X. They are empty in other builds, where the
// toolchain has recorded the revision.
var (
	version string
	commit  string
	date    string // RFC 3339
)

// Info describes a build.
type Info struct {
	Version  string
	Commit   string    // 12 digits; empty if unknown
	Modified bool      // the checkout had changes that are not committed
	Date     time.Time // of the commit; zero if unknown
}

// Get returns what is known of this build.
func Get() Info {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		build = new(debug.BuildInfo)
	}
	return get(build, version, commit, date)
}

func get(build *debug.BuildInfo, version, commit, date string) Info {
	settings := make(map[string]string)
	for _, s := range build.Settings {
		settings[s.Key] = s.Value
	}
	info := Info{
		Version:  cmp.Or(version, build.Main.Version, "(devel)"),
		Commit:   cmp.Or(commit, settings["vcs.revision"]),
		Modified: commit == "" && settings["vcs.modified"] == "true",
	}
	if len(info.Commit) > 12 {
		info.Commit = info.Commit[:12]
	}
	info.Date, _ = time.Parse(time.RFC3339, cmp.Or(date, settings["vcs.time"])) // zero: unknown
	return info
}

// String returns the line of `gorxe version` behind the program's name.
func (i Info) String() string {
	words := []string{i.Version}
	if i.Commit != "" {
		words = append(words, "commit "+i.Commit)
		if i.Modified {
			words[1] += " with changes"
		}
	}
	if !i.Date.IsZero() {
		words = append(words, i.Date.UTC().Format(time.DateOnly))
	}
	return strings.Join(append(words, runtime.Version()+" "+runtime.GOOS+"/"+runtime.GOARCH), ", ")
}
