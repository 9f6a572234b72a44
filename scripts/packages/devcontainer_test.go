package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDevcontainer installs the feature into a Debian, from a file and from a release.
func TestDevcontainer(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../dist/devcontainer/gorxe/devcontainer-feature.json")
	if err != nil {
		t.Fatal(err)
	}
	// containers.dev/implementors/features has the members.
	var feature struct {
		ID, Version, Name, Description, DocumentationURL, LicenseURL string
		Options                                                      map[string]struct{ Type, Default, Description string }
		InstallsAfter                                                []string
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&feature); err != nil || feature.ID != "gorxe" || feature.Version == "" {
		t.Errorf("%+v, %v", feature, err)
	}
	script, err := os.ReadFile("../../dist/devcontainer/gorxe/install.sh")
	if err != nil {
		t.Fatal(err)
	}
	for name := range feature.Options {
		if !strings.Contains(string(script), "${"+strings.ToUpper(name)) {
			t.Errorf("install.sh does not use the option %s", name)
		}
	}

	d := newDebian(t)
	out := packages(t).dir
	d.copy("/release", debIn(t, out), filepath.Join(out, "SHA256SUMS"))
	d.copy("/feature", "../../dist/devcontainer/gorxe/install.sh")

	deb := "/release/" + filepath.Base(debIn(t, out))
	if text, code := d.run("PACKAGE=/none.deb /feature/install.sh"); code != 1 || !strings.Contains(text, "gorxe: there is no package /none.deb") {
		t.Errorf("a package that does not exist: exit code %d\n%s", code, text)
	}
	d.ok("PACKAGE=" + deb + " PACKAGES=ibverbs-utils /feature/install.sh; gorxe run ibv_devices | grep rxe0")

	// A release as GitHub has it.
	d.write("/usr/local/bin/curl", "#!/bin/bash -e\n# curl -fsSL -o FILE URL\necho \"$4\" >>/urls\ncp \"/release/$(basename \"$4\")\" \"$3\"\n")
	if err := os.Chmod(d.root+"/usr/local/bin/curl", 0o755); err != nil {
		t.Fatal(err)
	}
	d.ok("dpkg -P gorxe; VERSION=latest PACKAGES= /feature/install.sh")
	const latest = "https://github.com/gorxe/gorxe/releases/latest/download/"
	if got, want := d.ok("cat /urls; rm /urls"), latest+"SHA256SUMS\n"+latest+filepath.Base(deb)+"\n"; got != want {
		t.Errorf("the latest release is at\n%s", got)
	}
	sums, err := os.ReadFile(filepath.Join(out, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	wrong := regexp.MustCompile("(?m)^[0-9a-f]{64}").ReplaceAll(sums, bytes.Repeat([]byte("0"), 64))
	d.write("/release/SHA256SUMS", string(wrong))
	if text, code := d.run("dpkg -P gorxe; VERSION=v1.2.3 PACKAGES= /feature/install.sh"); code == 0 || !strings.Contains(text, "FAILED") {
		t.Errorf("another file than the release's: exit code %d\n%s", code, text)
	}
	if got := d.ok("cat /urls; ! command -v gorxe"); !strings.Contains(got, "/releases/download/v1.2.3/gorxe_") {
		t.Errorf("release 1.2.3 is at\n%s", got)
	}
}
