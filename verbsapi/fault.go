package verbsapi

import "github.com/gorxe/gorxe/internal/fault"

// Fault is a rule for what goes wrong: which packets are lost, late, damaged and so on, which verbs
// fail, and which work requests, queues and ports. docs/faults.md has the grammar. A rule touches the
// traffic of the context that it is added to, or of the whole device if it says scope=device.
type Fault = fault.Rule

// FaultError says which word of a rule is wrong.
type FaultError = fault.Error

// FaultStatus is a rule and what it did.
type FaultStatus = fault.Status

// ParseFault reads a rule, as "packet drop,opcode=RC_SEND_ONLY,first=1". An error is a
// *FaultError.
func ParseFault(text string) (Fault, error) { return fault.Parse(text) }

// AddFaults adds rules, all or none. It returns the number of the first; the others have the
// numbers that follow.
func (c *Context) AddFaults(rules ...Fault) (id uint64, err error) {
	if c.isClosed() {
		return 0, closed("AddFaults", "context")
	}
	for i := range rules {
		if err := checkFault(&rules[i]); err != nil {
			return 0, err
		}
	}
	if id, err = c.faults.Add(rules...); err == nil {
		c.eng.faults.Update(c.faults)
	}
	return id, err
}

// RemoveFaults removes rules by their numbers, and returns what they did.
func (c *Context) RemoveFaults(ids ...uint64) ([]FaultStatus, error) {
	removed, err := c.faults.Remove(ids...)
	c.eng.faults.Update(c.faults)
	return removed, err
}

// Faults returns the rules and what they did so far. A test wants that each has fired.
func (c *Context) Faults() []FaultStatus { return c.faults.Status() }
