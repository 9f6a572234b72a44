package verbsapi

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/internal/fault/inject"
)

// faultVerbs are the verbs that ask for faults.
var faultVerbs = []string{
	"query_device", "query_port", "query_gid_table", "alloc_pd", "dealloc_pd", "reg_mr", "rereg_mr", "dereg_mr",
	"alloc_mw", "dealloc_mw", "create_ah", "destroy_ah", "create_comp_channel",
	"create_cq", "resize_cq", "req_notify_cq", "destroy_cq",
	"create_srq", "modify_srq", "query_srq", "destroy_srq",
	"create_qp", "modify_qp", "query_qp", "destroy_qp", "post_send", "attach_mcast", "detach_mcast",
	"open_xrcd", "close_xrcd", "open_qp", "create_flow", "destroy_flow", "create_counters", "read_counters", "destroy_counters",
	"create_wq", "modify_wq", "destroy_wq", "create_rwq_ind_table", "destroy_rwq_ind_table",
}

// checkFault refuses a rule that is for programs only.
func checkFault(r *Fault) error {
	if r.What == fault.Removed || r.What == fault.Killed {
		return &FaultError{Rule: r.String(), Why: "this fault is for programs under gorxe run: give it to gorxe run --fault"}
	}
	if r.Where != fault.WhereVerb || slices.ContainsFunc(faultVerbs, r.IsVerb) {
		return nil
	}
	return &FaultError{Rule: r.String(), Why: fmt.Sprintf("only programs under gorxe run have %s", r.Verb)}
}

// process is this one, as rules name it. A Go program has no label.
func process() fault.Process {
	return fault.Process{PID: os.Getpid(), Command: filepath.Base(os.Args[0])}
}

// program is what rules do to the context.
func (c *Context) program() inject.Program {
	return inject.Program{Process: process(), Fatal: c.fatal}
}

// updateFaults makes the engine ask the rules as they are now.
func (c *Context) updateFaults() {
	c.eng.verbs.Update(c.faults)
	c.eng.faults.Update(c.faults)
}

// verb is called before a verb is executed. It waits, or returns an error that unwraps to an errno,
// as the fault rules say.
func (c *Context) verb(op, name string) error {
	if c.eng.verbs.None(c.faults) {
		return nil
	}
	hit, ok := c.eng.verbs.Verb(c.faults, &fault.Verb{Device: c.device.name, Name: name, Process: process()})
	switch {
	case !ok:
		return nil
	case hit.What == fault.Fail:
		return &OpError{Op: op, Why: "by a fault rule", Err: hit.Errno}
	}
	timer := time.NewTimer(hit.Wait())
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-c.closed:
		return closed(op, "context")
	}
}
