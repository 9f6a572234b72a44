package tenant

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// views are the processes in whose mount namespaces control groups may be mounted. `ip netns exec`
// mounts /sys again, in a namespace of its own, without them. Its parent and process 1 have them,
// if this process may look there.
func views() []string {
	return []string{"proc/self", "proc/" + strconv.Itoa(os.Getppid()), "proc/1"}
}

// groupFiles calls visit with the name of each file that may have a limit of this process's
// control groups, up to the root of the hierarchy. The files have the names v2 in the unified
// hierarchy, and v1 in the controller's own (cgroups(7)). Files is the root directory.
func groupFiles(files fs.FS, controller string, v2, v1 []string, visit func(name string)) {
	groups, err := fs.ReadFile(files, "proc/self/cgroup")
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
		dir, top, ok := mounted(files, controller, unified, part[2])
		if !ok {
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

// mounted returns the directory of a control group, and that of the topmost group, in the first
// view that shows it.
func mounted(files fs.FS, controller string, unified bool, group string) (dir, top string, ok bool) {
	for i, process := range views() {
		mounts, err := fs.ReadFile(files, process+"/mountinfo")
		if err != nil {
			continue
		}
		dir, top, err := directory(string(mounts), controller, unified, group)
		if err != nil {
			continue
		}
		root := "/"
		if i > 0 {
			root += process + "/root"
		}
		dir, top = path.Join(root, dir), path.Join(root, top)
		// Another mount may cover it.
		if _, err := fs.Stat(files, dir[1:]); err == nil {
			return dir, top, true
		}
	}
	return "", "", false
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
