package daemon

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/gorxe/gorxe/internal/kernel/tree"
	"github.com/gorxe/gorxe/internal/service/proto"
)

// railGIDs is how long the table of GIDs of a rail is. NCCL makes two calls for each entry, which
// take 20 ms with the 1,024 of rdma_rxe.
const railGIDs = 32

// nodeOf returns the NUMA node of a rail: the rails go round the nodes of the machine. nil: the
// device is no rail, or sysfs does not tell.
func nodeOf(s proto.Spec, index int, sysfs string) *tree.NUMANode {
	if !s.Rail {
		return nil
	}
	var numbers []int
	dirs, _ := filepath.Glob(sysfs + "/devices/system/node/node[0-9]*") // the pattern is good
	for _, dir := range dirs {
		if n, err := strconv.Atoi(filepath.Base(dir)[len("node"):]); err == nil {
			numbers = append(numbers, n)
		}
	}
	if len(numbers) == 0 {
		return nil
	}
	slices.Sort(numbers)
	n := numbers[index%len(numbers)]
	dir := sysfs + "/devices/system/node/node" + strconv.Itoa(n)
	cpus, err := os.ReadFile(dir + "/cpumap")
	list, err2 := os.ReadFile(dir + "/cpulist")
	if err != nil || err2 != nil {
		return nil
	}
	return &tree.NUMANode{Number: n, CPUs: string(cpus), CPUList: string(list)}
}
