package daemon

import (
	"testing"

	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/service/proto"
)

// TestSteps: the states of queue pairs are kept in their order, up to a bound and to what the user
// may have, as long as somebody asks for them.
func TestSteps(t *testing.T) {
	r := new(reports)
	budget := quota.New(stepCost(maxSteps + 1))
	f := fileReports{to: r, pid: 7, program: "prog", role: "server", budget: budget}
	f.Moved(0x11, "INIT")
	if len(r.steps.list) != 0 {
		t.Error("nobody asks, and a state is kept")
	}
	r.steps.wanted()
	r.steps.wanted()
	f.Moved(0x11, "RTR")
	f.Moved(0x12, "RESET")
	var rep proto.Report
	r.steps.report(&rep)
	if len(rep.Steps) != 2 || rep.StepsLeftOut != 0 || rep.Steps[0].Time.IsZero() {
		t.Fatalf("%+v", rep)
	}
	first := rep.Steps[0]
	if first.Time = rep.Steps[1].Time; first != (proto.QPStep{Time: first.Time, PID: 7, Name: "prog", Role: "server", QPN: 0x11, State: "RTR"}) || rep.Steps[1].QPN != 0x12 {
		t.Errorf("%+v", rep.Steps)
	}
	for range maxSteps {
		f.Moved(0x13, "ERR")
	}
	if len(r.steps.list) != maxSteps || r.steps.leftOut != 2 {
		t.Errorf("%d are kept, %d left out", len(r.steps.list), r.steps.leftOut)
	}
	if r.steps.done(budget); len(r.steps.list) == 0 {
		t.Error("the other connection has nothing to ask for")
	}
	if r.steps.done(budget); len(r.steps.list) != 0 || budget.Used() != (quota.Cost{}) {
		t.Errorf("%d are kept, and %+v is charged", len(r.steps.list), budget.Used())
	}
	r.steps.wanted()
	poor := fileReports{to: r, budget: quota.New(stepCost(1))}
	poor.Moved(1, "INIT")
	if poor.Moved(1, "RTR"); len(r.steps.list) != 1 || r.steps.leftOut != 1 {
		t.Errorf("above the budget: %d are kept, %d left out", len(r.steps.list), r.steps.leftOut)
	}
}
