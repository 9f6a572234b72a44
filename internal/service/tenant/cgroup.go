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
)

// groupFiles calls visit with the name of each file that may have a limit of this process's
// control groups, up to the root of the hierarchy. The files have the names v2 in the unified
// hierarchy, and v1 in the controller's own (cgroups(7)). Files is the root directory.
func groupFiles(files fs.FS, controller string, v2, v1 []string, visit func(name string)) {
	groups, err := fs.ReadFile(files, "proc/self/cgroup")
	if err != nil {
		return
	}
	mounts, err := fs.ReadFile(files, "proc/self/mountinfo")
	if err != nil {
		return
	}
	for group := range strings.Lines(string(groups)) {
		// hierarchy-ID:controller-list:cgroup-path
		part := strings.SplitN(strings.TrimSuffix(group, "\n"), ":", 3)
		if len(part) != 3 {
			continue
		}
		names, unified := v2, part[1] == ""
		if !unified {
			if !hasController(part[1], controller) {
				continue
			}
			names = v1
		}
		dir, top, err := directory(string(mounts), controller, unified, part[2])
		if err != nil {
			continue
		}
		for {
			for _, name := range names {
				visit(path.Join(dir, name))
			}
			if dir == top {
				break
			}
			dir = path.Dir(dir)
		}
	}
}

// readLimit returns the number in a file. It reports false if there is none, as in "max".
func readLimit(files fs.FS, name string) (int64, bool) {
	text, err := fs.ReadFile(files, strings.TrimPrefix(name, "/"))
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || n > math.MaxInt64 {
		return 0, false
	}
	return int64(n), true
}

var errNoMount = errors.New("not mounted")

// directory returns the directory of a control group, and that of the topmost group that is
// mounted, from proc_pid_mountinfo(5).
func directory(mounts, controller string, unified bool, group string) (dir, top string, err error) {
	for s := bufio.NewScanner(strings.NewReader(mounts)); s.Scan(); {
		mount, super, ok := strings.Cut(s.Text(), " - ")
		at, of := strings.Fields(mount), strings.Fields(super)
		if !ok || len(at) < 5 || len(of) < 3 {
			continue
		}
		if unified != (of[0] == "cgroup2") || !unified && (of[0] != "cgroup" || !hasController(of[2], controller)) {
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

// hasController reports whether a list of controllers, or of mount options, has that one.
func hasController(list, controller string) bool {
	return slices.Contains(strings.Split(list, ","), controller)
}
