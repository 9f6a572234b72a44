package daemon

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/rxe"
)

// maxListed is how many open devices and objects a status lists. The sessions share them, so
// that no session hides those of another.
const maxListed = 8192

// Status returns what the host's root may see: everything, also of a daemon of containers.
func (s *Server) Status() *proto.Status {
	return s.statusOf(true, 0, cmp.Or(s.cfg.maxListed, maxListed))
}

// status returns what the user uid may see. Root and the daemon's own user see every session,
// others their own.
func (s *Server) status(uid uint32) *proto.Status {
	return s.statusOf(s.owns(uid), uid, cmp.Or(s.cfg.maxListed, maxListed))
}

// statusOf is status for a user that sees all, or only what is its own.
func (s *Server) statusOf(all bool, uid uint32, room int) *proto.Status {
	st := &proto.Status{PID: os.Getpid(), Socket: s.cfg.Socket, Private: s.cfg.Private, Started: s.started,
		Devices: []proto.DeviceStatus{}, Sessions: []proto.SessionStatus{},
		Goroutines: runtime.NumGoroutine(), OpenFiles: openFiles()}
	u := s.cm.Usage()
	st.CM = proto.CMStatus{IDs: u.IDs, Connections: u.CM.Conns, HalfOpen: u.CM.HalfOpen, Ports: u.Ports}
	if all {
		st.FaultsFired = s.fired.Hits()
	}
	for _, d := range s.devices {
		st.Devices = append(st.Devices, d.status(all))
	}
	sessions, hidden := s.seen(all, uid)
	st.Hidden = hidden
	for i, n := range sessions {
		one, listed := n.status(room / (len(sessions) - i))
		st.Sessions = append(st.Sessions, one)
		room -= listed
	}
	return st
}

// visible returns the sessions that a user may see, in the order of their numbers, and how many
// others there are.
func (s *Server) visible(uid uint32) (list []*session, hidden int) {
	return s.seen(s.owns(uid), uid)
}

func (s *Server) seen(all bool, uid uint32) (list []*session, hidden int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := range s.sessions {
		if all || uid == n.cred.Uid {
			list = append(list, n)
		} else {
			hidden++
		}
	}
	slices.SortFunc(list, func(a, b *session) int { return cmp.Compare(a.id, b.id) })
	return list, hidden
}

// status describes the device. The counters that say why packets were dropped would help a
// user who guesses the numbers and keys of others: only root and the daemon's user see them.
func (d *device) status(all bool) proto.DeviceStatus {
	dev, info := d.engine.Device(), d.engine.Port().Info()
	port := proto.PortStatus{
		Number: 1, Interface: info.Name, State: info.State.String(),
		MTU: info.MTU, ActiveMTU: info.ActiveMTU, SpeedGbps: float64(dev.QueryPort().Mbps) / 1000, GIDs: []proto.GIDStatus{},
	}
	for i, gid := range dev.GIDs() {
		if !gid.IsZero() {
			port.GIDs = append(port.GIDs, proto.GIDStatus{Index: i, GID: gid.String()})
		}
	}
	port.Counters = socketCounters(d.engine.Port().Counters(), all)
	n := dev.Objects()
	st := proto.DeviceStatus{
		Name: d.spec.Name, Like: d.spec.Like, GUID: fmt.Sprintf("%016x", dev.GUID()), Ports: []proto.PortStatus{port},
		Objects:  map[string]int{"pd": n.PD, "mr": n.MR, "mw": n.MW, "cq": n.CQ, "srq": n.SRQ, "qp": n.QP, "ah": n.AH, "xrcd": n.XRCD},
		Counters: make(map[string]uint64), ECN: dev.ECN(),
	}
	counters := dev.HWCounters()
	if all {
		counters = slices.Concat(dev.Counters(), d.mux.Counters(), d.raw.List())
		if d.cm != nil {
			cm := d.cm.Counters()
			counters = append(counters, cm.Drops()...)
		}
	}
	if all {
		l := d.engine.Device().Latency()
		st.Latency = &proto.LatencyStatus{Sample: rxe.LatencySample, Buckets: l.Buckets[:], Seconds: float64(l.Sum) / 1e9}
		st.Packets, st.WorkRequests = make(map[string]proto.PacketCount), make(map[string]uint64)
		for _, c := range dev.PacketCounts() {
			st.Packets[c.Opcode.String()] = proto.PacketCount{Sent: c.Sent, Received: c.Received}
		}
		for _, c := range dev.WorkCounts() {
			st.WorkRequests[c.Name] = c.Value
		}
	}
	for _, c := range counters {
		st.Counters[c.Name] = c.Value
	}
	return st
}

// status describes the session with at most room of its open devices and objects.
func (n *session) status(room int) (st proto.SessionStatus, listed int) {
	n.mu.Lock()
	st = proto.SessionStatus{ID: n.id, UID: n.cred.Uid, Keeper: n.keeper, Command: n.command, Since: n.since,
		Label: n.faults.label, Place: n.place, Chaos: n.wanted.Chaos, Processes: []proto.ProcessStatus{}}
	n.mu.Unlock()
	byPID := make(map[int][]proto.FileStatus)
	for _, f := range n.openFiles() {
		if listed >= room {
			st.FilesLeftOut++
			continue
		}
		listed++
		one, objects := f.status(room - listed)
		listed += objects
		byPID[f.who.PID] = append(byPID[f.who.PID], one)
	}
	for pid, files := range byPID {
		slices.SortFunc(files, func(a, b proto.FileStatus) int { return cmp.Compare(a.Device, b.Device) })
		st.Processes = append(st.Processes, proto.ProcessStatus{PID: pid, Name: processName(pid), Role: n.reports.roleOf(pid), Files: files})
	}
	slices.SortFunc(st.Processes, func(a, b proto.ProcessStatus) int { return cmp.Compare(a.PID, b.PID) })
	st.CMIDs, st.CMIDsLeftOut = n.cmStatus(room - listed)
	return st, listed + len(st.CMIDs)
}

// openFiles counts this process's descriptors.
func openFiles() int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return -1
	}
	return len(list) - 1 // the directory itself
}

// processName returns the name of a process in ps, or an empty string if it is gone.
func processName(pid int) string {
	comm, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(comm), "\n")
}
