package daemon

import (
	"fmt"

	"github.com/gorxe/gorxe/internal/service/proto"
)

// OldLibrxe says what is wrong with a process whose completion queue was overrun
// (uverbs.File.Overrun), and what helps.
func OldLibrxe(pid int, name string) string {
	return fmt.Sprintf("process %d (%q) loses completions: librxe before rdma-core 55 miscounts them when ibv_next_poll "+
		"returns ENOENT; use rdma-core 55 or newer", pid, name)
}

// warn reports the file's librxe to the user and the log, once for each process.
func (f *file) warn() {
	n, pid := f.session, f.who.PID
	if !n.firstOf(pid) {
		return
	}
	// A process that has just ended still has its name.
	text := OldLibrxe(pid, processName(pid))
	n.log.Warn("a program's librxe is too old for the extended completion queue API", "process", pid, "hint", text)
	n.say(text)
}

// say tells the program's user something.
func (n *session) say(text string) {
	n.conn.Send(proto.Reply{Version: proto.ProtocolVersion, Say: text}) //nolint:errcheck // without a keeper there is no user to tell
}

// maxWarned bounds the processes that firstOf remembers.
const maxWarned = 1024

// firstOf reports whether this is the first warning about that process.
func (n *session) firstOf(pid int) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, known := n.warned[pid]; known {
		return false
	}
	if len(n.warned) >= maxWarned {
		clear(n.warned) // new processes may keep coming
	}
	n.warned[pid] = struct{}{}
	return true
}
