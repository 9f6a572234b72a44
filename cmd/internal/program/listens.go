package program

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// listeners returns where these processes listen: the number of each TCP port, and "" for a Unix
// socket. except are sockets to leave out, because the daemon may be among the processes.
func listeners(pids []int, except []string) (ports []string) {
	for _, pid := range pids {
		inodes := listening(pid, except)
		if len(inodes) == 0 {
			continue
		}
		fds, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/fd/*")
		if err != nil {
			continue
		}
		for _, fd := range fds {
			target, err := os.Readlink(fd)
			if err != nil {
				continue // it was closed meanwhile
			}
			inode, _ := strings.CutPrefix(target, "socket:[")
			if port, ok := inodes[strings.TrimSuffix(inode, "]")]; ok && !slices.Contains(ports, port) {
				ports = append(ports, port)
			}
		}
	}
	return ports
}

// Family returns the process and all below it.
func Family(root int) []int {
	children := make(map[int][]int)
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is correct
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // the process has ended
		}
		if pid, parent, ok := parseStat(string(text)); ok {
			children[parent] = append(children[parent], pid)
		}
	}
	all := []int{root}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}

// running returns the name and the number of the first of these processes that is another program
// than this one.
func running(pids []int) (name string, pid int) {
	self, _ := os.Readlink("/proc/self/exe") // without it, the first process counts
	for _, pid := range pids {
		dir := "/proc/" + strconv.Itoa(pid)
		exe, err := os.Readlink(dir + "/exe")
		comm, commErr := os.ReadFile(dir + "/comm")
		if err == nil && commErr == nil && exe != self {
			return strings.TrimSpace(string(comm)), pid
		}
	}
	return "", 0
}

// parseStat reads the number and the parent of a process. The name between them is in
// parentheses, and may have any characters.
func parseStat(text string) (pid, parent int, ok bool) {
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 1 || end < open {
		return 0, 0, false
	}
	rest := strings.Fields(text[end+1:])
	if len(rest) < 2 {
		return 0, 0, false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(text[:open]))
	parent, err2 := strconv.Atoi(rest[1])
	return pid, parent, err == nil && err2 == nil
}

// listening returns the inodes of the listening sockets in the network namespace of the process,
// with the TCP port of each.
func listening(pid int, except []string) map[string]string {
	inodes := make(map[string]string)
	for _, table := range []string{"tcp", "tcp6", "unix"} {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/net/" + table)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			switch {
			// "sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode"
			case table != "unix" && len(f) > 9 && f[3] == "0A":
				_, hex, _ := strings.Cut(f[1], ":")
				port, _ := strconv.ParseUint(hex, 16, 16) // the kernel's own number
				inodes[f[9]] = strconv.FormatUint(port, 10)
			// "Num RefCount Protocol Flags Type St Inode Path", with __SO_ACCEPTCON in Flags
			case table == "unix" && len(f) > 6 && f[3] == "00010000" && (len(f) < 8 || !slices.Contains(except, f[7])):
				inodes[f[6]] = ""
			}
		}
	}
	return inodes
}
