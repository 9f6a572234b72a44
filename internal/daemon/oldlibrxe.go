package daemon

import "fmt"

// OldLibrxe says what is wrong with a process whose completion queue was overrun
// (uverbs.File.Overrun), and what helps.
func OldLibrxe(pid int, name string) string {
	return fmt.Sprintf("process %d (%q) loses completions: librxe before rdma-core 55 miscounts them when ibv_next_poll "+
		"returns ENOENT; use rdma-core 55 or newer", pid, name)
}

// warn tells the user and the log of the file's librxe, once for each process.
func (f *file) warn() {
	n, pid := f.session, f.who.PID
	if !n.firstOf(pid) {
		return
	}
	// A process that has just ended still has its name.
	text := OldLibrxe(pid, processName(pid))
	n.log.Warn("a program's librxe is too old for what it does", "process", pid, "hint", text)
	n.conn.Send(reply{Version: protocolVersion, Say: text}) //nolint:errcheck // without a keeper nobody listens
}

// firstOf reports whether this is the first warning about that process.
func (n *session) firstOf(pid int) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, known := n.warned[pid]; known {
		return false
	}
	if len(n.warned) >= maxFilesPerSession {
		clear(n.warned) // a session may have ever new processes
	}
	n.warned[pid] = struct{}{}
	return true
}
