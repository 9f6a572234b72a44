package interop

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/test/transcript"
)

// record makes these tests write what programs say on the kernel's rdma_rxe. The tests of
// internal/test/e2e compare gorxe with that.
var record = flag.Bool("record", false, "write what programs say on rdma_rxe into internal/test/e2e/testdata")

const recordings = "../e2e/testdata"

// enterRelease runs a command in a Debian that scripts/newer-rdma-core.sh has unpacked.
const enterRelease = `root=$1; shift
for d in proc sys dev; do mount --rbind /$d "$root/$d" || exit 1; done
exec chroot "$root" "$@"`

// recorded are the Debian releases of which programs are recorded, by rdma-core's version.
var recorded = []struct{ version, root string }{
	{"44", ""},
	{"56", "../../../bin/rdma-core-newer"},
	{"65", "../../../bin/rdma-core-newest"},
}

// inRelease is the command that runs a program of a release.
func inRelease(t *testing.T, root string, argv ...string) []string {
	t.Helper()
	if root == "" {
		return argv
	}
	root, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{"unshare", "--mount", "sh", "-c", enterRelease, "sh", root}, argv...)
}

func failOn(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// recording is the file for what one version did.
func recording(subject, version, form string) string {
	kernel, _, _ := strings.Cut(strings.TrimPrefix(lab.release, "Debian "), "-")
	return filepath.Join(recordings, subject+"-v"+version+"-linux-"+kernel+"."+form)
}

// TestRecordRDMACore records rdma-core's Python tests.
func TestRecordRDMACore(t *testing.T) {
	if !*record {
		return
	}
	script, err := os.ReadFile(filepath.Join(recordings, "rdmacore.py"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range recorded {
		t.Run(r.version, func(t *testing.T) {
			argv := []string{"/usr/bin/python3", "-c", string(script), "/usr/share/doc/rdma-core/tests", "rxe0", "1"}
			if r.root != "" {
				argv = append(argv, "test_")
			}
			p := lab.guest.Start(inRelease(t, r.root, argv...)...)
			if _, err := p.Wait(longTimeout); err != nil {
				t.Fatalf("%v\n%s", err, p.Output())
			}
			type verdict struct {
				Result string `json:"result"`
				Detail string `json:"detail,omitempty"`
			}
			got := make(map[string]string)
			for line := range strings.Lines(p.Output()) {
				var v struct {
					Test string
					verdict
				}
				if json.Unmarshal([]byte(line), &v) != nil || v.Test == "" {
					continue // what a test wrote
				}
				name, err := json.Marshal(v.Test)
				failOn(t, err)
				text, err := json.Marshal(v.verdict)
				failOn(t, err)
				got[v.Test] = string(name) + ": " + string(text)
			}
			var lines []string
			for _, name := range slices.Sorted(maps.Keys(got)) {
				lines = append(lines, got[name])
			}
			text := "{\n" + strings.Join(lines, ",\n") + "\n}\n"
			failOn(t, os.WriteFile(recording("rdmacore", r.version, "json"), []byte(text), 0o644))
		})
	}
}

// TestRecordTools records the tools that look at RDMA devices.
func TestRecordTools(t *testing.T) {
	if !*record {
		return
	}
	for _, r := range recorded {
		t.Run(r.version, func(t *testing.T) {
			root := r.root
			if root != "" {
				var err error
				root, err = filepath.Abs(root)
				failOn(t, err)
			}
			p := lab.guest.Start("sh", "-c", transcript.Session, "session", root, lab.guest.addr, transcript.Commands())
			if _, err := p.Wait(longTimeout); err != nil {
				t.Fatalf("%v\n%s", err, p.Output())
			}
			_, err := transcript.Parse(p.Output())
			failOn(t, err)
			failOn(t, os.WriteFile(recording("tools", r.version, "txt"), []byte(p.Output()), 0o644))
		})
	}
}
