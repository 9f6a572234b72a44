package daemon

import (
	"errors"
	"fmt"

	"github.com/gorxe/gorxe/internal/interpose"
)

// The protocol between keepers and daemon. A client says hello and is told what
// there is; from then on a daemon that ends with its last program waits for it.
// Then it attaches, once, a listener with the page that it shares (see
// interpose.ServeConfig); the connection lives as long as the session, and the
// daemon asks in it for what only the keeper may open, and says what the user should
// know of the program. Or the client asks for the status.

// protocolVersion changes when an older peer could misunderstand.
const protocolVersion = 2

// request is what a client sends.
type request struct {
	Version int    `json:"version"`
	Op      string `json:"op"`

	// hello
	Command []string `json:"command,omitempty"` // the program, for the status
	Wanted  Wanted   `json:"wanted,omitzero"`

	// attach; with two descriptors, the listener and the shared page
	PID     int    `json:"pid,omitempty"`     // of the keeper
	Program int    `json:"program,omitempty"` // its process
	FDBase  uint32 `json:"fd_base,omitempty"`
	FDCount uint32 `json:"fd_count,omitempty"`
	// NoAccess, if not empty, says why the keeper cannot open the program's memory.
	NoAccess string `json:"no_access,omitempty"`

	// answer to the daemon's question with this number; if Errno is 0 with the
	// descriptor, or device and inode
	ID    uint64 `json:"id,omitempty"`
	Errno int    `json:"errno,omitempty"`
	Dev   uint64 `json:"dev,omitempty"`
	Ino   uint64 `json:"ino,omitempty"`
}

const (
	opHello  = "hello"
	opAttach = "attach"
	opStatus = "status"
	opAnswer = "answer"
)

// reply is what the daemon sends: the reply to a request, or a question.
type reply struct {
	Version int     `json:"version"`
	Error   string  `json:"error,omitempty"`
	Code    errCode `json:"code,omitempty"`

	Hello *Hello `json:"hello,omitempty"`

	// Question, if not 0, is the number of a question about the process whose
	// pidfd is with it.
	Question uint64 `json:"question,omitempty"`
	Ask      string `json:"ask,omitempty"`
	FD       int32  `json:"fd,omitempty"`

	// Say is a sentence for the user of the session, and neither a reply nor a question.
	Say string `json:"say,omitempty"`
}

const (
	askMem  = "mem"  // open its memory
	askStat = "stat" // fstat its descriptor FD
)

// Doorbells says which doorbells of programs are trapped.
type Doorbells = interpose.Doorbells

// Wanted is what a session cannot do without: these devices, this capture file; and
// which doorbells it wants trapped, if that is not for the daemon to say. A private
// daemon of another build than Build gives way to the session if it has no other.
type Wanted struct {
	Build     Build     `json:"build,omitzero"` // zero: any
	Devices   []Spec    `json:"devices,omitempty"`
	Capture   string    `json:"capture,omitempty"`
	Speed     Speed     `json:"speed,omitzero"` // of every device that names none
	Doorbells Doorbells `json:"doorbells"`
}

// Hello is what a daemon says of itself.
type Hello struct {
	PID     int    `json:"pid"`
	Private bool   `json:"private"` // ends with its last program
	Devices []Spec `json:"devices"`
	Build   Build  `json:"build,omitzero"` // zero: one that does not say
}

// errCode is what a client can act on.
type errCode string

const (
	codeEnding errCode = "ending" // the daemon is about to end: look for another
	codeBuild  errCode = "build"  // the same, because it is another build
	codeLimit  errCode = "limit"
)

// Errors of a daemon's replies.
var (
	ErrEnding = errors.New("the daemon is ending")
	ErrLimit  = errors.New("a limit of the daemon's is reached")
	// ErrReplaced is an ErrEnding: the daemon gives way to another build.
	ErrReplaced = fmt.Errorf("%w, because it is another build of gorxe", ErrEnding)
	// ErrVersion: a peer of another version of the protocol.
	ErrVersion = fmt.Errorf("the daemon and this gorxe speak different versions of their protocol (this one %d): run the same gorxe for both", protocolVersion)
)

// err is the reply's error as a Go error.
func (r *reply) err() error {
	switch {
	case r.Version != protocolVersion:
		return ErrVersion
	case r.Code == codeBuild:
		return ErrReplaced
	case r.Code == codeEnding:
		return ErrEnding
	case r.Code == codeLimit:
		return fmt.Errorf("%w: %s", ErrLimit, r.Error)
	case r.Error != "":
		return errors.New("the daemon refused: " + r.Error)
	}
	return nil
}
