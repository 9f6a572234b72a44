package proto

import (
	"time"

	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/rxe"
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
	// FaultsFired are the hits of all fault rules since the daemon started, for root and the
	// daemon's own user.
	FaultsFired []fault.Hits `json:"faults_fired,omitempty"`
	// Resources of the daemon's process. If one is higher after all sessions have ended than
	// before, it is a leak.
	Goroutines int      `json:"goroutines"`
	OpenFiles  int      `json:"open_files"` // -1: unknown
	CM         CMStatus `json:"cm"`
}

// CMStatus is what RDMA CM remembers of all programs.
type CMStatus struct {
	IDs         int `json:"ids"`
	Connections int `json:"connections"` // of all states, timewait included
	HalfOpen    int `json:"half_open"`   // of them, requests of peers that are not established
	Ports       int `json:"ports"`
}

// DeviceStatus is one device.
type DeviceStatus struct {
	Name     string            `json:"name"`
	GUID     string            `json:"node_guid"`
	Like     Like              `json:"like,omitempty"` // the adapter that it looks like
	Ports    []PortStatus      `json:"ports"`
	Objects  map[string]int    `json:"objects"` // of all programs
	Counters map[string]uint64 `json:"counters"`
	ECN      rxe.ECN           `json:"ecn"`
	// Packets and WorkRequests are counted by opcode, for root and the daemon's own user.
	// Packets are those that queue pairs sent and accepted, with the names of the
	// specification. Work requests are those that completed with success.
	Packets      map[string]PacketCount `json:"packets,omitempty"`
	WorkRequests map[string]uint64      `json:"work_requests,omitempty"`
	// Latency is how long work requests took, for the same; nil: an older daemon does not say.
	Latency *LatencyStatus `json:"latency,omitempty"`
}

// LatencyStatus is how long send work requests took that succeeded, of one in Sample.
type LatencyStatus struct {
	Sample int `json:"sample"`
	// Buckets[i] counts those below 2^i microseconds that the bucket before does not. The last
	// bucket counts all others.
	Buckets []uint64 `json:"buckets"`
	Seconds float64  `json:"seconds"` // all together
}

// PacketCount is the number of packets with one opcode.
type PacketCount struct {
	Sent     uint64 `json:"sent"`
	Received uint64 `json:"received"`
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
	// Counters are those of the sockets. Other users than root and the daemon's own get
	// receive_queue_drop only.
	Counters map[string]uint64 `json:"counters,omitempty"`
}

// GIDStatus is one entry of a GID table.
type GIDStatus struct {
	Index int    `json:"index"`
	GID   string `json:"gid"`
}

// Place names a container, as its engine does. What an engine does not say is empty.
type Place struct {
	Namespace string `json:"namespace,omitempty"`
	Pod       string `json:"pod,omitempty"`
	Container string `json:"container,omitempty"`
}

// PodStatus is the daemon of a network namespace's containers.
type PodStatus struct {
	Place              // of the first container that the daemon had
	Containers []Place `json:"containers"` // that live
	// Status is nil if no program has asked for a device yet.
	Status *Status `json:"status,omitempty"`
}

// SessionStatus is one `gorxe run`.
type SessionStatus struct {
	ID        uint64          `json:"id"`
	UID       uint32          `json:"uid"`
	Keeper    int             `json:"keeper"` // process
	Command   []string        `json:"command"`
	Since     time.Time       `json:"since"`
	Chaos     uint64          `json:"chaos,omitempty"` // its seed; 0: none
	Label     string          `json:"label,omitempty"` // of gorxe run --label
	Place     Place           `json:"place,omitzero"`  // of its container
	Processes []ProcessStatus `json:"processes"`
	// FilesLeftOut is the number of open devices that a status has no room for.
	FilesLeftOut int `json:"files_left_out,omitempty"`
	// CMIDs are the communication identifiers of RDMA CM. CMIDsLeftOut is the number of those
	// that a status has no room for.
	CMIDs        []CMIDStatus `json:"cm_ids,omitempty"`
	CMIDsLeftOut int          `json:"cm_ids_left_out,omitempty"`
}

// CMIDStatus is a communication identifier: a listener, or an end of a connection.
type CMIDStatus struct {
	PID    int    `json:"pid"`
	ID     uint32 `json:"id"`
	Space  string `json:"port_space"` // TCP, UDP, IB or IPOIB
	State  string `json:"state"`      // as the rdma tool names it
	Device string `json:"device,omitempty"`
	Local  string `json:"local,omitempty"`
	Remote string `json:"remote,omitempty"`
}

// ProcessStatus is one process that opened a device, with what it made.
type ProcessStatus struct {
	PID   int          `json:"pid"`
	Name  string       `json:"name"`
	Role  string       `json:"role,omitempty"` // in gorxe pair
	Files []FileStatus `json:"files"`
}

// FileStatus has the objects that a program made through one open of a device. It has no
// keys, because a process that knows a key can use it.
type FileStatus struct {
	Device   string `json:"device"`
	PDs      int    `json:"pds"`
	MWs      int    `json:"mws"`
	AHs      int    `json:"ahs"`
	XRCDs    int    `json:"xrcds,omitempty"`
	Flows    int    `json:"flows,omitempty"`
	WQs      int    `json:"wqs,omitempty"`
	RSS      int    `json:"rss_qps,omitempty"` // queue pairs with an indirection table
	Channels int    `json:"comp_channels"`
	// Doorbells is how they reach the device.
	Doorbells DoorbellStatus `json:"doorbells"`
	MRs       []MRStatus     `json:"mrs"`
	CQs       []CQStatus     `json:"cqs"`
	SRQs      []SRQStatus    `json:"srqs"`
	QPs       []QPStatus     `json:"qps"`
	// LeftOut counts the objects that the lists have no room for. MRBytes is the size of all
	// memory regions.
	LeftOut LeftOut `json:"left_out,omitzero"`
	MRBytes uint64  `json:"mr_bytes"`
	// Fill is of all queues, listed or not.
	Fill QueueFill `json:"queue_fill"`
	// OldLibrxe: see OldLibrxe.
	OldLibrxe bool `json:"old_librxe,omitempty"`
}

// DoorbellStatus is how doorbells reach a device: "direct", "trapped", or of an adapter "woken" or
// "polled". Why is the reason of "trapped" and "polled".
type DoorbellStatus struct {
	How string `json:"how"`
	Why string `json:"why,omitempty"`
}

// QueueFill says how full all queues of a kind are together.
type QueueFill struct {
	Send Fill `json:"send"`
	Recv Fill `json:"receive"`
	SRQ  Fill `json:"shared_receive"`
	CQ   Fill `json:"completion"`
}

// Fill is how many entries of queues are in use, and how many there are.
type Fill struct {
	Used uint64 `json:"used"`
	Size uint64 `json:"size"`
}

// LeftOut counts objects that exist and are not listed.
type LeftOut struct {
	MRs  int `json:"mrs"`
	CQs  int `json:"cqs"`
	SRQs int `json:"srqs"`
	QPs  int `json:"qps"`
}

// MRStatus is a memory region, in the program's addresses.
type MRStatus struct {
	Handle uint32 `json:"handle"`
	Addr   uint64 `json:"addr"`
	Length uint64 `json:"length"`
	Access uint32 `json:"access"` // enum ibv_access_flags
}

// CQStatus is a completion queue; Waiting are completions not polled yet.
type CQStatus struct {
	Handle  uint32 `json:"handle"`
	Entries int    `json:"entries"`
	Waiting int    `json:"waiting"`
}

// SRQStatus is a shared receive queue; Waiting are work requests not used yet. One of XRC has a
// number, by which requests name it.
type SRQStatus struct {
	Handle  uint32 `json:"handle"`
	Entries int    `json:"entries"`
	Waiting int    `json:"waiting"`
	Num     uint32 `json:"xrc_srq_num,omitempty"`
}

// QPStatus is a queue pair.
type QPStatus struct {
	Handle    uint32      `json:"handle"`
	QPN       uint32      `json:"qpn"`
	Type      string      `json:"type"`
	State     string      `json:"state"`
	Peer      *PeerStatus `json:"peer,omitempty"` // RC and UC that are connected
	SendQueue uint32      `json:"send_queue"`     // work requests under way
	SendPSN   uint32      `json:"send_psn"`
	AckedPSN  uint32      `json:"acked_psn"`
	RecvPSN   uint32      `json:"recv_psn"`
	Busy      bool        `json:"busy"`
	// RateMbps is what congestion has left of the sender's rate; 0: no limit.
	RateMbps float64           `json:"rate_mbps,omitempty"`
	Groups   []string          `json:"multicast_groups,omitempty"`
	Counters map[string]uint64 `json:"counters"`
}

// PeerStatus is the other end of a connected queue pair.
type PeerStatus struct {
	GID string `json:"gid"`
	QPN uint32 `json:"qpn"`
	MTU int    `json:"path_mtu"`
}
