package daemon

import (
	"errors"
	"maps"

	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/internal/sys/procfs"
	"golang.org/x/sys/unix"
)

// role is a process that has told the daemon its role. Its descendants have the same role.
type role struct {
	pid     int
	stopped bool
}

// maxParents bounds how far above a process its role is looked for.
const maxParents = 32

// tellRole notes what a client says of its own role in a session, or of the end of a role.
func (s *Server) tellRole(conn *proto.Conn, cred unix.Ucred, req *proto.Request) {
	sessions, _ := s.visible(cred.Uid)
	for _, n := range sessions {
		if n.id == req.Session && req.Role != nil && (req.Role.Name == proto.RoleServer || req.Role.Name == proto.RoleClient) {
			n.reports.tellRole(int(cred.Pid), *req.Role)
			conn.Send(proto.Reply{Version: proto.ProtocolVersion}) //nolint:errcheck // the client needs no answer
			return
		}
	}
	refuse(conn, errors.New("there is no such session or role"))
}

// tellRole gives a process a role, or notes that a role is stopped.
func (r *reports) tellRole(pid int, told proto.Role) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.roles == nil {
		r.roles = make(map[string]role)
	}
	now := r.roles[told.Name]
	if now.stopped = told.Stopped; !told.Stopped {
		now.pid = pid
	}
	r.roles[told.Name] = now
}

// roleOf returns the role of a process: its own, or that of the nearest process above it. Empty: it
// has none.
func (r *reports) roleOf(pid int) string {
	r.mu.Lock()
	roles := maps.Clone(r.roles)
	r.mu.Unlock()
	if len(roles) == 0 {
		return ""
	}
	for range maxParents {
		for name, is := range roles {
			if is.pid == pid {
				return name
			}
		}
		st, err := procfs.ReadStatus(pid)
		if err != nil || st.PPID <= 1 {
			break
		}
		pid = st.PPID
	}
	return ""
}
