package replay

import "fmt"

// Report is the result of a replay.
type Report struct {
	Sessions []*Session `json:"sessions"`
	Skipped  []Skipped  `json:"skipped,omitempty"`
	// Part is what was replayed of a capture that does not fit in memory, nil for all of it.
	Part *Part `json:"part,omitempty"`
	// Cut reports that the file ends within a packet, which begins at byte CutAt.
	Cut   bool  `json:"cut,omitempty"`
	CutAt int64 `json:"cut_at,omitempty"`
	// Empty reports that the capture has no RDMA packet.
	Empty bool `json:"empty,omitempty"`
}

// Part is the beginning of a capture. It ends at one packet for all flows.
type Part struct {
	Packets int     `json:"packets"` // all frames of the file up to there
	Bytes   int64   `json:"bytes"`   // of the packets kept
	Seconds float64 `json:"seconds"` // since the first
	Bound   string  `json:"bound"`   // that was reached
}

// Skipped is what was not played.
type Skipped struct {
	Flow string `json:"flow,omitempty"` // empty for the whole capture
	Why  string `json:"why"`
}

// Session is one queue pair's requests, or one side of a talk of connection managers, played
// in one role.
type Session struct {
	Flow  string `json:"flow"`
	Role  Role   `json:"role"`
	First int    `json:"firstPacket"`

	Played   int `json:"played"`   // packets, or work requests, given to the engine
	Compared int `json:"compared"` // captured packets that the engine's were compared with
	// Free counts the differences that the specification allows, by name. Assumed
	// counts the assumptions about the captured device that its packets imply.
	Free        map[string]int `json:"free,omitempty"`
	Assumed     map[string]int `json:"assumed,omitempty"`
	Differences []Difference   `json:"differences,omitempty"`
	// More is how many differences there are beyond those.
	More int `json:"more,omitempty"`
	// Stopped says why the session was not played to its end.
	Stopped string `json:"stopped,omitempty"`

	unexplained int
}

// Role is the role of the engine in a session.
type Role string

// The roles.
const (
	Responder Role = "responder"
	Requester Role = "requester"
	// Manager is one side of a connection manager's talk.
	Manager Role = "connection manager"
)

// Difference is a packet that the engine would have sent differently.
type Difference struct {
	Packet   int    `json:"packet"` // captured
	About    string `json:"about"`
	Captured string `json:"captured"`
	Engine   string `json:"engine"`
	// Explained says why both are right, or which of them is wrong. It is empty if
	// that is not known.
	Explained string `json:"explained,omitempty"`
}

const maxDifferences = 1000

func (s *Session) differ(d Difference) {
	if d.Explained == "" {
		s.unexplained++
	}
	if len(s.Differences) == maxDifferences {
		s.More++
		return
	}
	s.Differences = append(s.Differences, d)
}

func (s *Session) free(what string)   { s.Free[what]++ }
func (s *Session) assume(what string) { s.Assumed[what]++ }

// NotSent is the name in Session.Free of requests that could not be compared, because the engine
// waits for responses that the capture lacks.
const NotSent = "requests that the engine did not come to send"

// Compared returns how many captured packets were compared.
func (r *Report) Compared() int {
	n := 0
	for _, s := range r.Sessions {
		n += s.Compared
	}
	return n
}

// Unexplained returns the number of differences that are not explained.
func (r *Report) Unexplained() int {
	n := 0
	for _, s := range r.Sessions {
		n += s.unexplained
	}
	return n
}

// Unexplained returns the number of the session's differences that are not explained.
func (s *Session) Unexplained() int { return s.unexplained }

func (d *Difference) String() string {
	text := fmt.Sprintf("packet %d: %s: captured %s, the engine %s", d.Packet, d.About, d.Captured, d.Engine)
	if d.Explained != "" {
		text += " (" + d.Explained + ")"
	}
	return text
}
