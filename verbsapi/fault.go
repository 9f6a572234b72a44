package verbsapi

import "github.com/gorxe/gorxe/internal/fault"

// Fault is a rule for what goes wrong with packets, verbs, work requests, peers, ports, devices and
// limits. docs/faults.md has the grammar. A rule touches the
// traffic of the context that it is added to, or of the whole device if it says scope=device.
type Fault = fault.Rule

// FaultError says which word of a rule is wrong.
//
//	Rule    string  // as given
//	Word    string  // the word at fault; it is in Rule, or empty
//	At      int     // where Word is in Rule, in bytes
//	Why     string
type FaultError = fault.Error

// FaultStatus is a rule and what it did.
//
//	ID         uint64  `json:"id"`
//	Name       string  `json:"name,omitempty"`
//	Rule       string  `json:"rule"`
//	Candidates uint64  `json:"candidates"`
//	Fired      uint64  `json:"fired"`
//	// packets lost, because there was no room to keep them
//	NoRoom  uint64  `json:"no_room,omitempty"`
//	First   *Event  `json:"first,omitempty"`
//	Last    *Event  `json:"last,omitempty"`
type FaultStatus = fault.Status

// ParseFault reads a rule, as "packet drop,opcode=RC_SEND_ONLY,first=1". An error is a
// *FaultError.
func ParseFault(text string) (Fault, error) { return fault.Parse(text) }

// AddFaults adds rules, all or none. It returns the number of the first; the others have the
// numbers that follow. It refuses rules about limits: give those in Config.Faults.
func (c *Context) AddFaults(rules ...Fault) (id uint64, err error) {
	if err := fault.Fixed(rules); err != nil {
		return 0, err
	}
	return c.addFaults(rules)
}

func (c *Context) addFaults(rules []Fault) (id uint64, err error) {
	if c.isClosed() {
		return 0, closed("AddFaults", "context")
	}
	for i := range rules {
		if err := checkFault(&rules[i]); err != nil {
			return 0, err
		}
	}
	if id, err = c.faults.Add(rules...); err == nil {
		c.updateFaults()
	}
	return id, err
}

// RemoveFaults removes rules by their numbers, and returns what they did.
func (c *Context) RemoveFaults(ids ...uint64) ([]FaultStatus, error) {
	if err := c.faults.Fixed(ids...); len(ids) > 0 && err != nil {
		return nil, err
	}
	removed, err := c.faults.Remove(ids...)
	c.updateFaults()
	return removed, err
}

// Faults returns the rules and what they did so far. A test should check that each has fired.
func (c *Context) Faults() []FaultStatus { return c.faults.Status() }
