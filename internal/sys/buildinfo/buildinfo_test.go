package buildinfo

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestString(t *testing.T) {
	checkout := &debug.BuildInfo{Main: debug.Module{Version: "v0.0.0-20260102030405-0123456789ab"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123456789abcdef0123456789abcdef01234567"},
		{Key: "vcs.time", Value: "2026-01-02T23:59:59Z"}, {Key: "vcs.modified", Value: "true"},
	}}
	platform := ", " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
	for _, c := range []struct {
		name                  string
		build                 *debug.BuildInfo
		version, commit, date string
		want                  string
	}{
		{"a release", new(debug.BuildInfo), "v1.2.3", "fedcba9876543210", "2026-03-04T05:06:07+02:00", "v1.2.3, commit fedcba987654, 2026-03-04"},
		{"a release from a changed checkout", checkout, "v1.2.3", "fedcba9876543210", "2026-03-04T05:06:07Z", "v1.2.3, commit fedcba987654, 2026-03-04"},
		{"a checkout", checkout, "", "", "", "v0.0.0-20260102030405-0123456789ab, commit 0123456789ab with changes, 2026-01-02"},
		{"neither", new(debug.BuildInfo), "", "", "", "(devel)"},
		{"a wrong date", new(debug.BuildInfo), "v1.2.3", "ab", "yesterday", "v1.2.3, commit ab"},
	} {
		if got := get(c.build, c.version, c.commit, c.date).String(); got != c.want+platform {
			t.Errorf("%s: %q, want %q", c.name, got, c.want+platform)
		}
	}
}
