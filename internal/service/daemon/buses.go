package daemon

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gorxe/gorxe/internal/kernel/tree"
	"golang.org/x/sys/unix"
)

// numaNode returns the node of the machine that an adapter or a rail is on: those of a daemon are
// dealt to the nodes in turn. It is nil on a machine with one node.
func numaNode(root fs.FS, index int) *tree.NUMANode {
	nodes := numaNodes(root)
	if len(nodes) < 2 {
		return nil
	}
	return &nodes[index%len(nodes)]
}

// numaNodes returns the nodes that have processors (drivers/base/node.c).
func numaNodes(root fs.FS) (nodes []tree.NUMANode) {
	const dir = "sys/devices/system/node"
	names, _ := fs.Glob(root, dir+"/node[0-9]*") // the pattern is correct
	for _, name := range names {
		number, err := strconv.Atoi(strings.TrimPrefix(path.Base(name), "node"))
		list, listErr := fs.ReadFile(root, name+"/cpulist")
		mask, maskErr := fs.ReadFile(root, name+"/cpumap")
		n := tree.NUMANode{Number: number, CPUs: strings.TrimSpace(string(mask)), CPUList: strings.TrimSpace(string(list))}
		if err == nil && listErr == nil && maskErr == nil && n.CPUList != "" {
			nodes = append(nodes, n)
		}
	}
	slices.SortFunc(nodes, func(a, b tree.NUMANode) int { return a.Number - b.Number })
	return nodes
}

// onPCI returns the names of the host's devices on the PCI bus: none if the machine has no such
// bus.
func onPCI() (names []string) {
	list, _ := os.ReadDir("/sys/bus/pci/devices")
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// netdevDir returns where a network interface is in sysfs, or "".
func netdevDir(name string) string {
	dir, err := filepath.EvalSymlinks("/sys/class/net/" + name)
	if err != nil || name == "" {
		return ""
	}
	return dir
}

// netdevAttr returns what reads a file of a network interface, as the daemon's network namespace
// has it; nil: there is no interface.
func netdevAttr(name string) func(string) (string, error) {
	if name == "" {
		return nil
	}
	return func(attr string) (string, error) {
		text, err := os.ReadFile(filepath.Join("/sys/class/net", name, attr))
		var errno unix.Errno
		if errors.As(err, &errno) {
			return "", errno // speed of a loopback interface: EINVAL
		}
		return string(text), err
	}
}
