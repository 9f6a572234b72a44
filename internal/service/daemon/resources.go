package daemon

import (
	"bytes"
	"cmp"
	"os"
	"slices"
	"strconv"

	"github.com/gorxe/gorxe/internal/kernel/nldev"
	"github.com/gorxe/gorxe/internal/sys/procfs"
)

// Resources implements nldev.Source. Root and the daemon's own user see those of every program,
// others those of their own sessions.
func (v *netlinkView) Resources(d *nldev.Device) *nldev.Resources {
	if r := v.seen[d]; r != nil {
		return r
	}
	r := new(nldev.Resources)
	for _, n := range v.session.server.sessionsFor(v.who.UID) {
		for _, f := range n.openFiles() {
			if uint32(f.device.index) != d.Index {
				continue
			}
			if pid := v.pids.number(f.who.PID); pid != 0 {
				f.AddResources(r, pid)
			}
		}
		if cm := n.openedCM(); cm != nil {
			cm.AddResources(d.Name, r, v.pids.number)
		}
	}
	sortResources(r)
	v.seen[d] = r
	return r
}

// sessionsFor returns the sessions that a user may see.
func (s *Server) sessionsFor(uid uint32) []*session {
	all := s.owns(uid)
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*session
	for n := range s.sessions {
		if all || uid == n.cred.Uid {
			list = append(list, n)
		}
	}
	return list
}

// owns reports whether a user is root or the daemon's. Such a user sees what belongs to
// others, and may set fault rules for a whole device. A daemon of containers has no such user:
// root of one container is not root of the next.
func (s *Server) owns(uid uint32) bool {
	return s.cfg.Conns == nil && seesAll(uid, uint32(os.Geteuid()))
}

// seesAll is owns for a daemon of the user owner.
func seesAll(uid, owner uint32) bool { return uid == 0 || uid == owner }

// sortResources sorts by number, as the kernel's tables are.
func sortResources(r *nldev.Resources) {
	slices.SortFunc(r.PDs, func(a, b nldev.PD) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(r.CQs, func(a, b nldev.CQ) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(r.QPs, func(a, b nldev.QP) int { return cmp.Compare(a.Num, b.Num) })
	slices.SortFunc(r.CMIDs, func(a, b nldev.CMID) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(r.MRs, func(a, b nldev.MR) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(r.Contexts, func(a, b nldev.Context) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(r.SRQs, func(a, b nldev.SRQ) int { return cmp.Compare(a.ID, b.ID) })
}

// pidView translates the daemon's numbers of processes to those of a reader's pid namespace
// (nldev.c: fill_res_name_pid).
type pidView struct {
	reader    int    // its number here
	namespace string // of the reader, if it is not the daemon's
	known     bool
	cache     map[int]uint32
}

// number returns the reader's number of a process; 0 if the reader does not see it.
func (v *pidView) number(pid int) uint32 {
	if !v.known {
		v.known, v.cache = true, make(map[int]uint32)
		mine, err := procfs.Readlink("/proc/self/ns/pid")
		theirs, err2 := procfs.Readlink(procfs.Path(v.reader, "ns/pid"))
		if err == nil && err2 == nil && mine != theirs {
			v.namespace = theirs
		}
	}
	if v.namespace == "" {
		return uint32(pid)
	}
	n, ok := v.cache[pid]
	if !ok {
		if ns, err := procfs.Readlink(procfs.Path(pid, "ns/pid")); err == nil && ns == v.namespace {
			n = innermostPID(pid)
		}
		v.cache[pid] = n
	}
	return n
}

// innermostPID is a process's number in its own pid namespace: the last of NSpid in
// /proc/PID/status. It is 0 if the process has ended.
func innermostPID(pid int) uint32 {
	b, err := os.ReadFile(procfs.Path(pid, "status"))
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(b) {
		if rest, ok := bytes.CutPrefix(line, []byte("NSpid:")); ok {
			f := bytes.Fields(rest)
			if len(f) == 0 {
				return 0
			}
			n, err := strconv.ParseUint(string(f[len(f)-1]), 10, 32)
			if err != nil {
				return 0
			}
			return uint32(n)
		}
	}
	return 0
}
