package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// debian is Debian's base system in a directory, without a network. apt-get installs from
// packages that scripts/debian-offline.sh has kept.
type debian struct {
	t    *testing.T
	root string
	env  []string
	// binds are directories of this machine that the Debian sees under the same names.
	binds []string
}

// unsafeIO is a file that lets dpkg leave out fsync, which takes most of its time.
const unsafeIO = "/etc/dpkg/dpkg.cfg.d/unsafe-io"

func newDebian(t *testing.T) *debian {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, to enter a Debian")
	}
	d := &debian{t: t, root: t.TempDir(), env: []string{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME=/root", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive"}}
	if err := makeStore(); err != nil {
		t.Fatal(err)
	}
	for _, argv := range [][]string{
		{"tar", "-xf", "../../bin/base-bookworm.tar", "-C", d.root, "--exclude=./dev/*"},
		{"mkdir", filepath.Join(d.root, "debs")},
	} {
		if text, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", argv, err, text)
		}
	}
	d.write("/etc/apt/sources.list", "deb [trusted=yes] file:///debs ./\n")
	d.write(unsafeIO, "force-unsafe-io\n")
	d.ok("apt-get update -q")
	return d
}

func (d *debian) write(name, text string) {
	d.t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(d.root+name), 0o755), os.WriteFile(d.root+name, []byte(text), 0o644)); err != nil {
		d.t.Fatal(err)
	}
}

// copy copies files into a directory of the Debian.
func (d *debian) copy(dir string, files ...string) {
	d.t.Helper()
	copyTo(d.t, d.root+dir, files...)
}

const enterDebian = `root=$0; debs=$1; shift
mount -t proc proc "$root/proc"; mount -t sysfs sys "$root/sys"; mount --rbind /dev "$root/dev"; mount --bind "$debs" "$root/debs"
ip link set lo up
while [ "$1" != -- ]; do mkdir -p "$root$1"; mount --bind "$1" "$root$1"; shift; done; shift
exec env -i "$@"`

// run runs bash in namespaces of its own. It returns what the script says, and its exit code.
func (d *debian) run(script string) (string, int) {
	d.t.Helper()
	debs, err := filepath.Abs("../../bin/debs")
	if err != nil {
		d.t.Fatal(err)
	}
	words := []string{"--mount", "--net", "--pid", "--fork", "--kill-child", "sh", "-ec", enterDebian, d.root, debs}
	words = append(append(append(words, d.binds...), "--"), d.env...)
	words = append(words, "chroot", d.root, "bash", "-ec", script)
	cmd := exec.Command("unshare", words...)
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		d.t.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

func (d *debian) ok(script string) string {
	d.t.Helper()
	text, code := d.run(script)
	if code != 0 {
		d.t.Fatalf("exit code %d:\n%s\n%s", code, strings.TrimSpace(script), text)
	}
	return text
}
