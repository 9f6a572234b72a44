package proto

import (
	"errors"
	"time"

	"github.com/gorxe/gorxe/internal/explain"
	"github.com/gorxe/gorxe/internal/explain/sanitize"
	"github.com/gorxe/gorxe/internal/explain/work"
)

// Errors are the last errors of one session.
type Errors struct {
	Session uint64           `json:"session"`
	UID     uint32           `json:"uid"`
	Command []string         `json:"command"`
	Total   uint64           `json:"total"` // with those that are not kept
	Errors  []explain.Record `json:"errors"`
}

// Report is what is known of a session, during it or afterward.
type Report struct {
	Errors  Errors         `json:"errors"`
	Session SessionStatus  `json:"session"` // now: without the processes that have ended
	Devices []DeviceStatus `json:"devices"`
	// CaptureLeftOut is the number of packets for which the capture was too long.
	CaptureLeftOut uint64 `json:"capture_left_out,omitempty"`
	// Ended are the objects that processes left behind, as they were when each process closed its
	// device. EndedLeftOut is the number of open devices that there was no room for.
	Ended        []ProcessStatus `json:"ended"`
	EndedLeftOut int             `json:"ended_left_out,omitempty"`
	// Ends are the ends of processes that had a device open, in their order.
	Ends []ProcessEnd `json:"ends,omitempty"`
	// Steps are the states of the queue pairs, in their order; StepsLeftOut counts those that there
	// was no room for.
	Steps        []QPStep `json:"steps,omitempty"`
	StepsLeftOut int      `json:"steps_left_out,omitempty"`
	// Work has the work requests, for a verdict; nil: they are not known.
	Work *work.Report `json:"work,omitempty"`
	// WorkOfOthers are those of further hosts, if this is the report of a lab.
	WorkOfOthers []*work.Report `json:"work_of_others,omitempty"`
	// Sanitizer is what the session's sanitizer has found; nil: it has none.
	Sanitizer *sanitize.Report `json:"sanitizer,omitempty"`
}

// QPStep is a queue pair that came to a state, by a verb.
type QPStep struct {
	Time  time.Time `json:"time"`
	PID   int       `json:"pid"`
	Name  string    `json:"name"`
	Role  string    `json:"role,omitempty"` // in gorxe pair
	QPN   uint32    `json:"qpn"`
	State string    `json:"state"`
}

// ProcessEnd is the end of a process.
type ProcessEnd struct {
	Time   time.Time `json:"time"`
	PID    int       `json:"pid"`
	Name   string    `json:"name"`
	Role   string    `json:"role,omitempty"`   // in gorxe pair
	Signal string    `json:"signal,omitempty"` // that killed it, as SIGKILL
	// with which it exited; nil: a signal killed it, or it is not known
	Status *int `json:"status,omitempty"`
	// Stopped: gorxe pair ended it.
	Stopped bool `json:"stopped,omitempty"`
}

// Errors returns the last errors of the sessions that this user may see.
func (c *Client) Errors() (list []Errors, err error) {
	return list, c.text(OpErrors, &list)
}

// Reports is a connection about what one session does. The daemon keeps what it knows of the
// session, and what its processes leave behind, until the connection ends.
type Reports struct {
	client  *Client
	session uint64
}

// DialReports connects to the daemon at one of paths.
func DialReports(paths []string, session uint64) (*Reports, error) {
	if session == 0 {
		return nil, errors.New("the daemon is another build of gorxe, which does not explain errors: restart it")
	}
	client, err := Dial(paths)
	if err != nil {
		return nil, err
	}
	r := &Reports{client, session}
	if _, err := r.Ask(); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Ask returns the report as it is now. The capture of the daemon has all packets until then.
func (r *Reports) Ask() (*Report, error) {
	rep := new(Report)
	return rep, r.client.textOf(Request{Version: ProtocolVersion, Op: OpReport, Session: r.session}, rep)
}

// Close ends the connection: see Client.Finish.
func (r *Reports) Close() { r.client.Finish() }
