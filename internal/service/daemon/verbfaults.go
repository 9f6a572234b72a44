package daemon

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/internal/trap/doorbell"
)

// verbFaults is the session's rules as the verbs of one open file meet them. It implements
// kernel.Faults.
type verbFaults struct {
	rules *faultRules
	verb  fault.Verb // without the name
}

// maxDelayed bounds the calls of a session that are delayed at a time, because each occupies a
// thread. The trap replaces twice as many.
const maxDelayed = 16

// ofFile returns the rules for the calls on a file that a process has opened.
func (r *faultRules) ofFile(device string, pid int) *verbFaults {
	return &verbFaults{r, fault.Verb{Device: device, Process: fault.Process{PID: pid, Command: processName(pid), Label: r.label}}}
}

// Verb implements kernel.Faults.
func (f *verbFaults) Verb(name string, ended <-chan struct{}) error {
	r := f.rules
	v := f.verb
	v.Name = name
	hit, ok := r.verbs.Verb(r.set, &v)
	switch {
	case !ok:
		return nil
	case hit.What == fault.Fail:
		return &kernel.Refusal{Errno: hit.Errno, Why: "a fault rule says so", Fix: "see gorxe fault list", Rule: true}
	}
	defer r.delayed.Add(-1)
	if r.delayed.Add(1) > maxDelayed {
		return nil
	}
	timer := time.NewTimer(hit.Wait())
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ended:
		return unix.EIO
	}
}

// attached notes how the doorbells of the session's programs are, and returns that: rules for
// post_send need trapped ones.
func (r *faultRules) attached(wanted proto.Doorbells) proto.Doorbells {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.set.HasVerb("post_send") {
		wanted = doorbell.Trapped
	}
	r.running, r.trapped = true, wanted == doorbell.Trapped
	return wanted
}

// errNotTrapped refuses a rule.
var errNotTrapped = errors.New("a rule for post_send needs trapped doorbells, and the session's programs run without: start them with --doorbells=trapped, or with the rule")

// checkVerbs reports whether rules about post_send can fire. r.mu is locked.
func (r *faultRules) checkVerbs(rules []fault.Rule) error {
	if r.running && !r.trapped {
		for i := range rules {
			if rules[i].IsVerb("post_send") {
				return errNotTrapped
			}
		}
	}
	return nil
}
