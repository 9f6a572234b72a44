package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/testenv"
)

// release is where programs come from: this system, or a newer Debian that
// scripts/newer-rdma-core.sh has unpacked.
type release struct {
	name string
	root string // of the newer Debian; empty for this system
}

// newer is the unpacked release. The test ends where there is none.
func newer(t *testing.T) release {
	t.Helper()
	return unpacked(t, "rdma-core-newer", "scripts/setup.sh")
}

// newest is the newest release of Debian, which changes. Nothing but `make compat` and
// `make e2e` needs it.
func newest(t *testing.T) release {
	t.Helper()
	return unpacked(t, "rdma-core-newest", "`make compat`")
}

func unpacked(t *testing.T, name, how string) release {
	t.Helper()
	root, err := filepath.Abs("../../../bin/" + name)
	if err != nil {
		t.Fatal(err)
	}
	version, err := os.ReadFile(filepath.Join(root, ".complete"))
	if err != nil {
		testenv.Missing(t, "%s is not there (%s unpacks it): %v", name, how, err)
	}
	t.Logf("%s", version)
	return release{name: strings.TrimPrefix(strings.TrimPrefix(name, "rdma-core-"), "dpdk-"), root: root}
}

// releases are both.
func releases(t *testing.T) []release {
	t.Helper()
	return []release{{name: "installed"}, newer(t)}
}

// enter runs a program in the unpacked release. It has the system's processes and
// devices there, and the scratch directory as /tmp.
const enter = `root=$1 scratch=$2; shift 2
for d in proc sys dev; do mount --rbind /$d "$root/$d" || exit 1; done
mount --bind "$scratch" "$root/tmp" && TMPDIR=/tmp exec chroot "$root" "$@"`

// argv is the command that runs a program of the release.
func (r release) argv(argv ...string) []string {
	if r.root == "" {
		return argv
	}
	return append([]string{"unshare", "--mount", "sh", "-c", enter, "sh", r.root, scratch}, argv...)
}

// beside runs programs of the unpacked release, with its libraries, among the files of this
// system. This perftest asks for the machine's PCI bus, which a chroot hides.
func (r release) beside(run launch) launch {
	if r.root == "" {
		return run
	}
	lib := filepath.Join(r.root, "usr/lib/x86_64-linux-gnu")
	front := []string{"env", "IBV_DRIVERS=" + filepath.Join(lib, "libibverbs/librxe") + ":" + filepath.Join(lib, "libibverbs/libmlx5"),
		filepath.Join(lib, "ld-linux-x86-64.so.2"), "--library-path", lib}
	return func(t *testing.T, argv ...string) *proc {
		t.Helper()
		return run(t, slices.Concat(front, []string{filepath.Join(r.root, "usr/bin", argv[0])}, argv[1:])...)
	}
}

// path is the name by which a program of the release finds a file of the scratch
// directory.
func (r release) path(file string) string {
	if r.root == "" {
		return file
	}
	return filepath.Join("/tmp", strings.TrimPrefix(file, scratch))
}

// version is what a program of the release says after the word and perhaps a colon, up to white
// space.
func (r release) version(t *testing.T, word string, argv ...string) string {
	t.Helper()
	out := start(t, &host{}, nil, r.argv(argv...)...).ok()
	_, rest, found := strings.Cut(out, word)
	fields := strings.Fields(strings.TrimPrefix(rest, ":"))
	if !found || len(fields) == 0 {
		t.Fatalf("%s: no version after %q:\n%s", strings.Join(argv, " "), word, out)
	}
	return fields[0]
}

// rdmaCoreHere is the release of rdma-core on this system: 44 of libibverbs.so.1.14.44.0.
func rdmaCoreHere(t *testing.T) int {
	t.Helper()
	for _, dir := range []string{"/usr/lib/*-linux-gnu", "/usr/lib64"} { // Debian, Fedora
		found := must.Get[[]string](t)(filepath.Glob(dir + "/libibverbs.so.1.*.*.*"))
		if len(found) > 0 {
			return must.Get[int](t)(strconv.Atoi(strings.Split(filepath.Base(found[0]), ".")[4]))
		}
	}
	t.Fatal("this system has no libibverbs")
	return 0
}
