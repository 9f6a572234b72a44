package proto

import (
	"errors"
	"fmt"

	"github.com/gorxe/gorxe/internal/fault"
)

// FaultRequest asks for, or changes, the fault rules of a session. A connection may carry several
// for the same session. The daemon keeps the rules, with what they did, as long as the session or
// such a connection lives. So `gorxe run` can read the outcome after its program has ended.
type FaultRequest struct {
	Do      string   `json:"do"`
	Session uint64   `json:"session"`
	Rules   []string `json:"rules,omitempty"` // add
	More    bool     `json:"more,omitempty"`  // the next message has further rules
	IDs     []uint64 `json:"ids,omitempty"`   // remove
}

// What a FaultRequest asks for. The daemon answers each with a list of fault.Status: of the rules
// that were added or removed, or of all.
const (
	FaultAdd    = "add"
	FaultRemove = "remove"
	FaultClear  = "clear"
	FaultList   = "list"
)

// Faults is a connection about the fault rules of one session.
type Faults struct {
	client  *Client
	session uint64
}

// DialFaults connects to the daemon at one of paths.
func DialFaults(paths []string, session uint64) (*Faults, error) {
	if session == 0 {
		return nil, errors.New("the daemon is another build of gorxe, which has no fault rules: restart it")
	}
	client, err := Dial(paths)
	if err != nil {
		return nil, err
	}
	return &Faults{client, session}, nil
}

// Close ends the connection: see Client.Finish.
func (f *Faults) Close() { f.client.Finish() }

// rulesPerMessage bounds the text of the rules in a message. JSON may need six bytes for one.
const rulesPerMessage = 2 << 10

// Add adds rules, all or none.
func (f *Faults) Add(rules []string) ([]fault.Status, error) {
	req := FaultRequest{Do: FaultAdd}
	size := 0
	for _, r := range rules {
		if size += len(r); size > rulesPerMessage && len(req.Rules) > 0 {
			req.More = true
			if err := f.send(req); err != nil {
				return nil, err
			}
			req, size = FaultRequest{Do: FaultAdd}, len(r)
		}
		req.Rules = append(req.Rules, r)
	}
	return f.ask(req)
}

// Remove removes rules by their numbers, all or none.
func (f *Faults) Remove(ids []uint64) ([]fault.Status, error) {
	return f.ask(FaultRequest{Do: FaultRemove, IDs: ids})
}

// Clear removes all rules.
func (f *Faults) Clear() ([]fault.Status, error) { return f.ask(FaultRequest{Do: FaultClear}) }

// List returns the rules and what they did.
func (f *Faults) List() ([]fault.Status, error) { return f.ask(FaultRequest{Do: FaultList}) }

func (f *Faults) request(r FaultRequest) Request {
	r.Session = f.session
	return Request{Version: ProtocolVersion, Op: OpFaults, Faults: &r}
}

func (f *Faults) send(r FaultRequest) error {
	if err := f.client.Conn.Send(f.request(r)); err != nil {
		return fmt.Errorf("fault rules: %w", f.client.broken(err))
	}
	return nil
}

func (f *Faults) ask(r FaultRequest) (list []fault.Status, err error) {
	return list, f.client.textOf(f.request(r), &list)
}
