package proto

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/gorxe/gorxe/internal/trap/doorbell"
)

// The protocol between keepers and daemon:
//
//  1. A client sends hello, and the daemon describes itself. From then on a daemon that ends
//     with its last program waits for this client.
//  2. The client attaches one listener. The reply has the file of the calls that the daemon has in
//     hand (package inflight). The connection lives as long as the session.
//  3. The daemon asks the client for what only the keeper may open. It also sends messages
//     for the user of the program.
//
// Instead of 1, a client may ask for the status, for what programs find of the devices, or for the
// errors of programs, or for a live capture (live.go). It may change the fault rules of a session
// (faults.go), or follow a session to its end (report.go). A process of a session may say which
// role it has in it (role.go).

// ProtocolVersion must change when an older peer could misunderstand a message.
const ProtocolVersion = 5

// Request is a message from a client.
type Request struct {
	Version int    `json:"version"`
	Op      string `json:"op"`

	// hello
	Command []string `json:"command,omitempty"` // the program, for the status
	Wanted  Wanted   `json:"wanted,omitzero"`

	// attach; with a descriptor, the listener
	PID     int    `json:"pid,omitempty"`     // of the keeper
	Program int    `json:"program,omitempty"` // its process
	FDBase  uint32 `json:"fd_base,omitempty"`
	FDCount uint32 `json:"fd_count,omitempty"`
	FDTop   uint32 `json:"fd_top,omitempty"`
	// NoAccess, if not empty, says why the keeper cannot open the program's memory.
	NoAccess string `json:"no_access,omitempty"`

	Faults *FaultRequest `json:"faults,omitempty"`
	// report and role: the number of the session
	Session uint64 `json:"session,omitempty"`
	Role    *Role  `json:"role,omitempty"`

	// Answer to the daemon's question with this number. If Errno is 0, the message has the
	// descriptor, or device and inode
	ID    uint64 `json:"id,omitempty"`
	Errno int    `json:"errno,omitempty"`
	Dev   uint64 `json:"dev,omitempty"`
	Ino   uint64 `json:"ino,omitempty"`
}

const (
	OpHello  = "hello"
	OpAttach = "attach"
	OpStatus = "status"
	OpSeen   = "seen"
	OpFaults = "faults"
	OpErrors = "errors" // of all sessions
	OpReport = "report" // of one session
	OpRole   = "role"   // of a process of a session
	OpRead   = "read"   // confirms that the answer to one of these two was read
	OpAnswer = "answer"
	OpLive   = "live" // a capture of all devices, which follows the reply (live.go)
)

// Reply is a message from the daemon: the reply to a request, or a question.
type Reply struct {
	Version int     `json:"version"`
	Error   string  `json:"error,omitempty"`
	Code    errCode `json:"code,omitempty"`

	Hello *Hello `json:"hello,omitempty"`

	// Question, if not 0, is the number of a question about the process whose pidfd comes
	// with it.
	Question uint64 `json:"question,omitempty"`
	Ask      string `json:"ask,omitempty"`
	FD       int32  `json:"fd,omitempty"`

	// Part is the next part of a long answer (SendText); More says that it is not the last.
	Part []byte `json:"part,omitempty"`
	More bool   `json:"more,omitempty"`

	// Say is a sentence for the user of the session. Such a message is neither a reply nor
	// a question.
	Say string `json:"say,omitempty"`
	// Errors, in the last message of a session, is how many errors it had (proto.Errors.Total).
	Errors uint64 `json:"errors,omitempty"`
}

const (
	AskMem  = "mem"  // open its memory
	AskStat = "stat" // fstat its descriptor FD
)

// Doorbells says which doorbells of programs are trapped.
type Doorbells = doorbell.Mode

// Wanted is what a session requires: devices and a capture file. It may also choose which
// doorbells are trapped.
type Wanted struct {
	// Network, if not 0, is the program's network namespace (ThisNetwork). A private daemon must be
	// in the same one.
	Network   uint64    `json:"network,omitempty"`
	Devices   []Spec    `json:"devices,omitempty"`
	Capture   string    `json:"capture,omitempty"`
	Speed     Speed     `json:"speed,omitzero"` // of every device that names none
	Like      Like      `json:"like,omitempty"` // the same; older daemons have no profiles
	ECN       ECN       `json:"ecn,omitempty"`  // of every device
	Segment   string    `json:"segment,omitempty"`
	Doorbells Doorbells `json:"doorbells"`
	Chaos     uint64    `json:"chaos,omitempty"`    // its seed; 0: none
	Sanitize  string    `json:"sanitize,omitempty"` // checks of the sanitizer; empty: none
	// SanitizeAbort ends a process at its first error.
	SanitizeAbort bool   `json:"sanitize_abort,omitempty"`
	Label         string `json:"label,omitempty"` // of the program; older daemons have none
}

// Hello is how a daemon describes itself.
type Hello struct {
	PID      int    `json:"pid"`
	Private  bool   `json:"private"` // ends with its last program
	Devices  []Spec `json:"devices"`
	Build    Build  `json:"build,omitzero"`     // zero: one that does not say
	Session  uint64 `json:"session,omitempty"`  // its number; 0: of an older daemon
	Chaos    uint64 `json:"chaos,omitempty"`    // of this session; an older daemon has none
	Sanitize string `json:"sanitize,omitempty"` // of this session; an older daemon has none
	// Address is that of the first device, by which programs of this host reach it.
	Address netip.Addr `json:"address,omitzero"`
}

// errCode is an error that a client can act on.
type errCode string

const (
	CodeEnding    errCode = "ending"    // the daemon is ending: look for another
	CodeElsewhere errCode = "elsewhere" // it is in another network namespace
	CodeLimit     errCode = "limit"
	CodeCapture   errCode = "capture" // it has another capture, or none
)

// Errors of a daemon's replies.
var (
	ErrEnding = errors.New("the daemon is ending")
	ErrLimit  = errors.New("user limit reached")
	// ErrElsewhere: the daemon serves runs in another network namespace, and started for them.
	ErrElsewhere = errors.New("the daemon is in another network namespace")
	// ErrCapture: the daemon has another capture than the run wants, or none.
	ErrCapture = errors.New("the daemon has another capture")
	// ErrVersion: a peer of another version of the protocol.
	ErrVersion = fmt.Errorf("the daemon and this gorxe speak different versions of their protocol (this one %d): run the same gorxe for both", ProtocolVersion)
)

// err returns the reply's error as a Go error.
func (r *Reply) err() error {
	switch {
	case r.Version != ProtocolVersion:
		return ErrVersion
	case r.Code == CodeEnding:
		return ErrEnding
	case r.Code == CodeElsewhere:
		return ErrElsewhere
	case r.Code == CodeLimit:
		return fmt.Errorf("%w: %s", ErrLimit, r.Error)
	case r.Code == CodeCapture:
		return &refused{r.Error, ErrCapture}
	case r.Error != "":
		return &refused{r.Error, nil}
	}
	return nil
}

// refused is the error of a reply. kind is one of the errors above, or nil.
type refused struct {
	text string
	kind error
}

func (r *refused) Error() string { return "the daemon refused: " + r.text }
func (r *refused) Unwrap() error { return r.kind }
