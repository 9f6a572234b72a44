package daemon

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/gorxe/gorxe/internal/sys/procfs"
)

// maxHolders bounds the programs that an error names.
const maxHolders = 8

// holders names the programs that keep the daemon.
func (s *Server) holders(uid uint32) string {
	sessions, hidden := s.visible(uid)
	var names []string
	for _, n := range sessions {
		names = append(names, n.holders()...)
	}
	if more := len(names) - maxHolders; more > 0 {
		names = append(names[:maxHolders], fmt.Sprintf("%d more", more))
	}
	if hidden > 0 {
		names = append(names, "programs of other users")
	}
	if len(names) == 0 {
		return ""
	}
	return ". Programs that use it: " + strings.Join(names, ", ")
}

// holders names the processes that keep a session: those with an open device. Without any, it names
// the processes of the session's keeper, and without those the command.
func (n *session) holders() (names []string) {
	seen := make(map[int]bool)
	add := func(pid int) {
		if name := processName(pid); name != "" && !seen[pid] {
			seen[pid] = true
			names = append(names, fmt.Sprintf("%s[%d]", oneLine(name), pid))
		}
	}
	for _, f := range n.openFiles() {
		add(f.who.PID)
	}
	n.mu.Lock()
	keeper := n.keeper
	n.mu.Unlock()
	if len(names) == 0 && keeper != 0 {
		for _, tid := range procfs.Threads(keeper) {
			// a thread that has ended
			list, _ := os.ReadFile(procfs.Path(keeper, "task/"+strconv.Itoa(tid)+"/children"))
			for child := range strings.FieldsSeq(string(list)) {
				if pid, err := strconv.Atoi(child); err == nil {
					add(pid)
				}
			}
		}
	}
	if len(names) == 0 && len(n.command) > 0 {
		names = append(names, fmt.Sprintf("%s[%d]", oneLine(n.command[0]), n.cred.Pid))
	}
	return names
}

// oneLine is a name that a program chose, without line ends.
func oneLine(name string) string { return strings.Join(strings.Fields(name), " ") }
