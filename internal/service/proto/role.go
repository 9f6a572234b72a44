package proto

import "cmp"

// The roles of the two ends of gorxe pair.
const (
	RoleServer = "server"
	RoleClient = "client"
)

// Role is what a process, and those that it starts, are in a session. The daemon names them so
// where it tells of errors and ends.
type Role struct {
	Name string `json:"name"` // RoleServer or RoleClient
	// Stopped: gorxe pair is about to end the processes of the role. They do not fail by
	// themselves.
	Stopped bool `json:"stopped,omitempty"`
}

// TellRole tells the daemon at one of paths the role of this process, or that a role is stopped.
func TellRole(paths []string, session uint64, role Role) error {
	client, err := Dial(paths)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.Conn.Send(Request{Version: ProtocolVersion, Op: OpRole, Session: session, Role: &role}); err != nil {
		return err
	}
	var r Reply
	fds, err := client.Conn.RecvWithin(&r, finishTimeout)
	CloseAll(fds)
	return cmp.Or(err, r.err())
}
