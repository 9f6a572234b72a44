package tenant

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Memory is how many bytes a process may use, and what limits them.
type Memory struct {
	Bytes int64
	Bound string
}

// Machine returns the machine's memory.
func Machine() Memory {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return Memory{}
	}
	return Memory{int64(info.Totalram) * int64(info.Unit), "the machine's memory"}
}

// Within returns the least of m and the limits of this process's memory control groups, up to
// the root of the hierarchy. A limit that it cannot read does not count. Files is the root
// directory.
func (m Memory) Within(files fs.FS) Memory {
	groups, err := fs.ReadFile(files, "proc/self/cgroup")
	if err != nil {
		return m
	}
	mounts, err := fs.ReadFile(files, "proc/self/mountinfo")
	if err != nil {
		return m
	}
	for group := range strings.Lines(string(groups)) {
		// hierarchy-ID:controller-list:cgroup-path (cgroups(7))
		part := strings.SplitN(strings.TrimSuffix(group, "\n"), ":", 3)
		if len(part) != 3 {
			continue
		}
		names := []string{"memory.max", "memory.high"}
		if part[1] != "" {
			if !hasMemory(part[1]) {
				continue
			}
			names = []string{"memory.limit_in_bytes"}
		}
		dir, top, err := directory(string(mounts), part[1] == "", part[2])
		if err != nil {
			continue
		}
		for {
			for _, name := range names {
				m.least(files, path.Join(dir, name))
			}
			if dir == top {
				break
			}
			dir = path.Dir(dir)
		}
	}
	return m
}

// least lowers m to the limit in a file.
func (m *Memory) least(files fs.FS, name string) {
	text, err := fs.ReadFile(files, strings.TrimPrefix(name, "/"))
	if err != nil {
		return
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || n > math.MaxInt64 {
		return // "max"
	}
	if m.Bytes == 0 || int64(n) < m.Bytes {
		*m = Memory{int64(n), name}
	}
}

var errNoMount = errors.New("not mounted")

// directory returns the directory of a control group, and that of the topmost group that is
// mounted, from proc_pid_mountinfo(5).
func directory(mounts string, unified bool, group string) (dir, top string, err error) {
	for s := bufio.NewScanner(strings.NewReader(mounts)); s.Scan(); {
		mount, super, ok := strings.Cut(s.Text(), " - ")
		at, of := strings.Fields(mount), strings.Fields(super)
		if !ok || len(at) < 5 || len(of) < 3 {
			continue
		}
		if unified != (of[0] == "cgroup2") || !unified && (of[0] != "cgroup" || !hasMemory(of[2])) {
			continue
		}
		root, top := at[3], at[4]
		below, ok := strings.CutPrefix(group, strings.TrimSuffix(root, "/"))
		if !ok || below != "" && below[0] != '/' || strings.Contains(below, "/../") {
			return top, top, nil // outside of what is mounted
		}
		return path.Join(top, below), path.Clean(top), nil
	}
	return "", "", fmt.Errorf("control group %s: %w", group, errNoMount)
}

// hasMemory reports whether a list of controllers, or of mount options, has the memory
// controller.
func hasMemory(list string) bool { return slices.Contains(strings.Split(list, ","), "memory") }
