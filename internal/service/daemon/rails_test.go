package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gorxe/gorxe/internal/kernel/tree"
	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/internal/test/must"
)

// TestNodeOf: rails go round the NUMA nodes, which need not have consecutive numbers. Other
// devices are at none.
func TestNodeOf(t *testing.T) {
	sysfs := t.TempDir()
	for node, cpus := range map[string][2]string{"node0": {"f\n", "0-3\n"}, "node10": {"f0\n", "4-7\n"}, "nodes": {}} {
		dir := filepath.Join(sysfs, "devices/system/node", node)
		must.OK(t, os.MkdirAll(dir, 0o755))
		must.OK(t, os.WriteFile(filepath.Join(dir, "cpumap"), []byte(cpus[0]), 0o600))
		must.OK(t, os.WriteFile(filepath.Join(dir, "cpulist"), []byte(cpus[1]), 0o600))
	}
	rail := proto.Spec{Name: "rxe0", Rail: true}
	first := tree.NUMANode{Number: 0, CPUs: "f\n", CPUList: "0-3\n"}
	for i, want := range []tree.NUMANode{first, {Number: 10, CPUs: "f0\n", CPUList: "4-7\n"}, first} {
		if got := nodeOf(rail, i, sysfs); got == nil || *got != want {
			t.Errorf("rail %d is at %+v, not %+v", i, got, want)
		}
	}
	if got := nodeOf(proto.Spec{Name: "rxe0"}, 0, sysfs); got != nil {
		t.Errorf("another device is at %+v", got)
	}
	if got := nodeOf(rail, 0, t.TempDir()); got != nil {
		t.Errorf("without nodes a rail is at %+v", got)
	}
	if n := engineConfig(rail).GIDTableLen; n != railGIDs {
		t.Errorf("a rail has %d GIDs", n)
	}
}
