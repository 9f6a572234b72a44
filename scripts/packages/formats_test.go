package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestRPM installs, verifies and erases the rpm in a Debian of its own: Debian has rpm, and its
// shell runs the scripts of the package. The file is signed by nobody, and what it requires
// is not there.
func TestRPM(t *testing.T) {
	t.Parallel()
	d := newDebian(t)
	file := packages(t).file(t, ".rpm")
	rpm := func(words ...string) string {
		t.Helper()
		text, err := exec.Command("rpm", append([]string{"--root", d.root, "--dbpath", "/var/lib/rpm"}, words...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("rpm %v: %v\n%s", words, err, text)
		}
		return string(text)
	}
	list := func() string {
		return d.ok("find / -xdev \\( -path /proc -o -path /sys -o -path /dev -o -path /debs -o -path /var/lib/rpm \\) -prune -o -print | sort")
	}
	const groups = "getent group rdma || echo none"
	if got := d.ok(groups); got != "none\n" {
		t.Fatalf("the Debian has %s", got)
	}
	// Directories that belong to packages of Fedora, and what groupadd leaves.
	d.ok("mkdir -p /usr/lib/sysusers.d /usr/share/zsh/site-functions /usr/share/fish/vendor_completions.d; touch /etc/gshadow-")
	rpm("--initdb")
	before := list()
	rpm("--install", "--nodeps", file)
	if got := d.ok(groups); !strings.HasPrefix(got, "rdma:") {
		t.Errorf("group rdma: %s", got)
	}
	if got := d.ok("gorxe version; gorxe-runtime --version 2>&1 | head -n 1"); !strings.HasPrefix(got, "gorxe v") {
		t.Error(got)
	}
	for _, name := range []string{"/usr/bin/gorxe", "/usr/bin/gorxe-runtime", "/usr/lib/systemd/system/gorxe.socket", "/usr/share/man/man1/gorxe-run.1",
		"/usr/share/zsh/site-functions/_gorxe", "/usr/share/bash-completion/completions/gorxe", "/usr/share/fish/vendor_completions.d/gorxe.fish",
		"/usr/lib64/wireshark/extcap/gorxe-extcap", "/usr/include/gorxe_sanitize.h"} {
		if !strings.Contains(rpm("--query", "--list", "gorxe"), name+"\n") {
			t.Errorf("the package lacks %s", name)
		}
	}
	if got := rpm("--query", "--requires", "gorxe"); !strings.Contains(got, "libibverbs\n") {
		t.Errorf("it requires %s", got)
	}
	if got := rpm("--verify", "--nodeps", "gorxe"); got != "" {
		t.Errorf("rpm --verify: %s", got)
	}
	if err := os.Chmod(d.root+"/usr/bin/gorxe", 0o700); err != nil {
		t.Fatal(err)
	}
	changed, err := exec.Command("rpm", "--root", d.root, "--dbpath", "/var/lib/rpm", "--verify", "--nodeps", "gorxe").CombinedOutput()
	if err == nil || !strings.Contains(string(changed), "/usr/bin/gorxe\n") {
		t.Errorf("a changed file is verified: %v\n%s", err, changed)
	}
	rpm("--erase", "gorxe")
	if after := list(); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}

// TestAPK checks what Alpine's apk wants of a package: two gzip members, a tar each. The first has
// .PKGINFO and the scripts. The second has the files, each with its SHA-1. Debian 12 has no apk.
func TestAPK(t *testing.T) {
	file := packages(t).file(t, ".apk")
	control, data := segments(t, file)
	info := string(contents(t, control)[".PKGINFO"])
	for _, want := range []string{"pkgname = gorxe\n", "arch = x86_64\n", "license = Apache-2.0\n"} {
		if !strings.Contains(info, want) {
			t.Errorf(".PKGINFO lacks %q:\n%s", want, info)
		}
	}
	if names := contents(t, control); len(names[".post-install"]) == 0 {
		t.Error("there is no .post-install, which makes the group")
	}
	files := contents(t, data)
	for _, name := range []string{"usr/bin/gorxe", "usr/share/man/man1/gorxe-run.1", "usr/share/zsh/site-functions/_gorxe"} {
		if len(files[name]) == 0 {
			t.Errorf("the package lacks %s", name)
		}
	}
	binary := filepath.Join(t.TempDir(), "gorxe")
	if err := os.WriteFile(binary, files["usr/bin/gorxe"], 0o755); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.Command(binary, "version").CombinedOutput(); err != nil || !strings.HasPrefix(string(said), "gorxe v") {
		t.Errorf("%v\n%s", err, said)
	}
}

// segments returns the two tars of an apk.
func segments(t *testing.T, name string) (control, data []byte) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	in := bytes.NewReader(text)
	z, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	var parts [][]byte
	for {
		z.Multistream(false)
		part, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, part)
		if err := z.Reset(in); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if len(parts) != 2 {
		t.Fatalf("%d gzip members, want control and data", len(parts))
	}
	return parts[0], parts[1]
}

// contents returns the regular files of a tar, and checks the SHA-1 that apk wants with each.
func contents(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	files := make(map[string][]byte)
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if want, ok := h.PAXRecords["APK-TOOLS.checksum.SHA1"]; ok {
			if sum := sha1.Sum(text); hex.EncodeToString(sum[:]) != want {
				t.Errorf("%s has SHA-1 %x, and the header says %s", h.Name, sum, want)
			}
		} else if h.Typeflag == tar.TypeReg && !strings.HasPrefix(h.Name, ".") {
			t.Errorf("%s has no SHA-1", h.Name)
		}
		if h.Typeflag == tar.TypeReg {
			files[h.Name] = text
		}
	}
}
