package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goreleaser/goreleaser/v2/pkg/config"
)

func TestVersionOf(t *testing.T) {
	for tag, want := range map[string]string{
		"v1.2.3-0-g0123abc":             "1.2.3",
		"v1.2.3-rc.1-0-g0123abc":        "1.2.3-rc.1",
		"v1.2.3-0-g0123abc-dirty":       "1.2.4-dev.0+g0123abc.dirty",
		"v1.2.3-7-g0123abc":             "1.2.4-dev.7+g0123abc",
		"v1.2.3-rc.1-7-g0123abc-dirty":  "1.2.3-rc.1.7+g0123abc.dirty",
		"v0.0.0-482-g290c2d05de9c":      "0.0.0-dev.482+g290c2d05de9c",
		"v1.2-0-g0123abc":               "",
		"nightly-0-g0123abc":            "",
		"v1.2.3":                        "",
		"v1.2.3-0-g0123abc; rm -rf /x ": "",
	} {
		got, err := versionOf(tag)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v; want %q", tag, got, err, want)
		}
	}
}

func TestWheelVersion(t *testing.T) {
	for version, want := range map[string]string{
		"1.2.3": "1.2.3", "1.2.3-rc.1": "1.2.3rc1", "1.2.3-beta.2": "1.2.3b2",
		"1.2.4-dev.7+g0123abc.dirty": "1.2.4.dev7+g0123abc.dirty", "1.2.3-rc.1.7+g0123abc": "1.2.3rc1.post7+g0123abc",
	} {
		if got := wheelVersion(version); got != want {
			t.Errorf("%s: %s, want %s", version, got, want)
		}
	}
}

func TestTemplate(t *testing.T) {
	r := &release{checkout: checkout{version: "1.2.3", commit: "0123abc", date: time.Unix(1700000000, 0).UTC()}}
	got, err := r.template("{{ .Version }} {{ .FullCommit }} {{ .CommitDate }} {{ .CommitTimestamp }} {{ .Arch }}", "arm64")
	if want := "1.2.3 0123abc 2023-11-14T22:13:20Z 1700000000 arm64"; got != want || err != nil {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	for _, wrong := range []string{"{{ .Nothing }}", "{{ .Version"} {
		if got, err := r.template(wrong, "arm64"); err == nil || !strings.Contains(err.Error(), ".goreleaser.yaml") {
			t.Errorf("%s: %q, %v", wrong, got, err)
		}
	}
}

// TestConfiguration: goreleaser's own reader accepts the file, and would not accept a
// setting that does not exist.
func TestConfiguration(t *testing.T) {
	text, err := os.ReadFile("../../.goreleaser.yaml")
	if err != nil {
		t.Fatal(err)
	}
	project, err := config.LoadReader(bytes.NewReader(text))
	if err != nil {
		t.Error(err)
	}
	// goreleaser empties its output directory: git must not know it.
	if known, err := exec.Command("git", "-C", "../..", "ls-files", project.Dist).Output(); err != nil || project.Dist == "" || len(known) > 0 {
		t.Errorf("dist is %q, which has %q (%v)", project.Dist, known, err)
	}
	if _, err := config.LoadReader(bytes.NewReader(append(text, "no_such_setting: 1\n"...))); err == nil {
		t.Error("a setting that does not exist is accepted")
	}
}

// TestReproducible: two builds in two places, in two time zones, give the same bytes.
func TestReproducible(t *testing.T) {
	t.Parallel()
	one := packages(t)
	other := made{checkout: filepath.Join(t.TempDir(), "elsewhere"), dir: t.TempDir()}
	if err := cloneTo(other.checkout); err != nil {
		t.Fatal(err)
	}
	again := exec.Command(os.Args[0])
	again.Env = append(os.Environ(), "TZ=Asia/Kolkata", checkoutEnv+"="+other.checkout, outEnv+"="+other.dir)
	text, err := again.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if first, last := "compiling gorxe for amd64\n", "writing "+filepath.Join(other.dir, "SHA256SUMS")+"\n"; !strings.Contains(string(text), first) || !strings.HasSuffix(string(text), last) {
		t.Errorf("the steps lack %q, or do not end with %q:\n%s", first, last, text)
	}
	entries, err := os.ReadDir(other.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		other.names = append(other.names, e.Name())
	}
	if names := slices.Sorted(slices.Values(one.names)); !slices.Equal(names, other.names) {
		t.Fatalf("%v, %v", names, other.names)
	}
	kinds := make(map[string]bool)
	for _, name := range one.names {
		kinds[filepath.Ext(name)] = true
		a, err := os.ReadFile(filepath.Join(one.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(other.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if len(a) == 0 || !bytes.Equal(a, b) {
			t.Errorf("%s differs, or is empty: %d and %d bytes", name, len(a), len(b))
		}
	}
	for _, kind := range []string{".gz", ".deb", ".rpm", ".apk", ".json", ".whl"} {
		if !kinds[kind] {
			t.Errorf("there is no %s file in %v", kind, one.names)
		}
	}
	sums := exec.Command("sha256sum", "--strict", "-c", "SHA256SUMS")
	sums.Dir = one.dir
	if text, err := sums.CombinedOutput(); err != nil || strings.Count(string(text), ": OK") != len(one.names)-1 {
		t.Errorf("sha256sum: %v\n%s", err, text)
	}
	checkBOM(t, one.dir)
	checkDeb(t, one.dir)
}

// checkBOM: the modules that the program imports are in the list, and no others are.
func checkBOM(t *testing.T, out string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(out, "*.spdx.json"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%v, %v", found, err)
	}
	text, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	var doc spdx
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	modules := make(map[string]bool)
	for _, p := range doc.Packages {
		modules[p.Name] = true
	}
	for name, want := range map[string]bool{"github.com/gorxe/gorxe": true, "stdlib": true, "github.com/alecthomas/kong": true, "github.com/goreleaser/nfpm/v2": false} {
		if modules[name] != want {
			t.Errorf("%s is in the list: %v", name, modules[name])
		}
	}
}

// checkDeb: the package has what the issue of a distribution expects.
func checkDeb(t *testing.T, out string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(out, "*_amd64.deb"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%v, %v", found, err)
	}
	text, err := exec.Command("dpkg-deb", "-c", found[0]).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"-rwxr-xr-x root/root", "./usr/bin/gorxe\n", "./usr/share/man/man1/gorxe-run.1\n", "./usr/share/man/man7/gorxe-ci.7\n",
		"./usr/lib/systemd/system/gorxe.socket\n", "./usr/bin/gorxe-runtime -> gorxe\n", "./usr/lib/x86_64-linux-gnu/wireshark/extcap/gorxe-extcap -> /usr/bin/gorxe\n",
		"./usr/lib/sysusers.d/gorxe.conf\n", "./usr/share/zsh/vendor-completions/_gorxe\n", "./usr/include/gorxe_sanitize.h\n",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the package lacks %q:\n%s", want, text)
		}
	}
	if field, err := exec.Command("dpkg-deb", "-f", found[0], "Depends").Output(); err != nil || string(field) != "ibverbs-providers\n" {
		t.Errorf("Depends: %s, %v", field, err)
	}
}
