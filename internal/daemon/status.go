package daemon

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/memfd"
)

// Status has the devices and sessions of a daemon, as `gorxe status --json` prints them.
type Status struct {
	PID      int             `json:"pid"`
	Socket   string          `json:"socket"`
	Private  bool            `json:"private"`
	Started  time.Time       `json:"started"`
	Devices  []DeviceStatus  `json:"devices"`
	Sessions []SessionStatus `json:"sessions"`
	// Hidden is the number of sessions of other users that are left out.
	Hidden int `json:"hidden_sessions"`
	// Resources of the daemon's process. If one is higher after all sessions have ended than
	// before, it is a leak.
	Goroutines int `json:"goroutines"`
	OpenFiles  int `json:"open_files"` // -1: unknown
}

// DeviceStatus is one device.
type DeviceStatus struct {
	Name     string            `json:"name"`
	GUID     string            `json:"node_guid"`
	Ports    []PortStatus      `json:"ports"`
	Objects  map[string]int    `json:"objects"` // of all programs
	Counters map[string]uint64 `json:"counters"`
}

// PortStatus is one port. Unused GID indices are left out.
type PortStatus struct {
	Number    int         `json:"number"`
	Interface string      `json:"interface"`
	State     string      `json:"state"`
	MTU       int         `json:"mtu"`        // of the interface, bytes
	ActiveMTU int         `json:"active_mtu"` // of the RDMA port, bytes
	SpeedGbps float64     `json:"speed_gbps"` // of the RDMA port
	GIDs      []GIDStatus `json:"gids"`
}

// GIDStatus is one entry of a GID table.
type GIDStatus struct {
	Index int    `json:"index"`
	GID   string `json:"gid"`
}

// SessionStatus is one `gorxe run`.
type SessionStatus struct {
	ID        uint64          `json:"id"`
	UID       uint32          `json:"uid"`
	Keeper    int             `json:"keeper"` // process
	Command   []string        `json:"command"`
	Since     time.Time       `json:"since"`
	Processes []ProcessStatus `json:"processes"`
}

// ProcessStatus is one process that opened a device, with what it made.
type ProcessStatus struct {
	PID   int          `json:"pid"`
	Name  string       `json:"name"`
	Files []FileStatus `json:"files"`
}

// sendStatus answers a status request. The text may be long, so it is sent as a memfd.
func (s *Server) sendStatus(conn *Conn, cred unix.Ucred) {
	fd, err := memfd.Create("gorxe-status")
	if err != nil {
		refuse(conn, fmt.Errorf("memfd: %w", err))
		return
	}
	f := os.NewFile(uintptr(fd), "status")
	defer f.Close()
	if err := json.NewEncoder(f).Encode(s.status(cred.Uid)); err != nil {
		refuse(conn, err)
		return
	}
	conn.Send(reply{Version: protocolVersion}, fd) //nolint:errcheck // the client's loss
}

// status returns what the user uid may see. Root and the daemon's own user see every session,
// others their own.
func (s *Server) status(uid uint32) *Status {
	st := &Status{PID: os.Getpid(), Socket: s.cfg.Socket, Private: s.cfg.Private, Started: s.started,
		Devices: []DeviceStatus{}, Sessions: []SessionStatus{},
		Goroutines: runtime.NumGoroutine(), OpenFiles: openFiles()}
	for _, d := range s.devices {
		st.Devices = append(st.Devices, d.status())
	}
	s.mu.Lock()
	sessions := make([]*session, 0, len(s.sessions))
	for n := range s.sessions {
		if uid == 0 || uid == uint32(os.Geteuid()) || uid == n.cred.Uid {
			sessions = append(sessions, n)
		} else {
			st.Hidden++
		}
	}
	s.mu.Unlock()
	slices.SortFunc(sessions, func(a, b *session) int { return cmp.Compare(a.id, b.id) })
	for _, n := range sessions {
		st.Sessions = append(st.Sessions, n.status())
	}
	return st
}

func (d *device) status() DeviceStatus {
	dev, info := d.engine.Device(), d.engine.Port().Info()
	port := PortStatus{
		Number: 1, Interface: info.Name, State: info.State.String(),
		MTU: info.MTU, ActiveMTU: info.ActiveMTU, SpeedGbps: float64(dev.QueryPort().Mbps) / 1000, GIDs: []GIDStatus{},
	}
	for i, gid := range dev.GIDs() {
		if !gid.IsZero() {
			port.GIDs = append(port.GIDs, GIDStatus{Index: i, GID: gid.String()})
		}
	}
	n := dev.Objects()
	st := DeviceStatus{
		Name: d.spec.Name, GUID: fmt.Sprintf("%016x", dev.GUID()), Ports: []PortStatus{port},
		Objects:  map[string]int{"pd": n.PD, "mr": n.MR, "mw": n.MW, "cq": n.CQ, "srq": n.SRQ, "qp": n.QP, "ah": n.AH},
		Counters: make(map[string]uint64),
	}
	for _, c := range dev.Counters() {
		st.Counters[c.Name] = c.Value
	}
	return st
}

func (n *session) status() SessionStatus {
	n.mu.Lock()
	st := SessionStatus{ID: n.id, UID: n.cred.Uid, Keeper: n.keeper, Command: n.command, Since: n.since,
		Processes: []ProcessStatus{}}
	n.mu.Unlock()
	byPID := make(map[int][]FileStatus)
	for _, f := range n.openFiles() {
		byPID[f.who.PID] = append(byPID[f.who.PID], f.status())
	}
	for pid, files := range byPID {
		slices.SortFunc(files, func(a, b FileStatus) int { return cmp.Compare(a.Device, b.Device) })
		st.Processes = append(st.Processes, ProcessStatus{PID: pid, Name: processName(pid), Files: files})
	}
	slices.SortFunc(st.Processes, func(a, b ProcessStatus) int { return cmp.Compare(a.PID, b.PID) })
	return st
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
