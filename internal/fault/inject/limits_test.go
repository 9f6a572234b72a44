package inject

import (
	"fmt"
	"testing"

	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/rxe"
)

// TestOwnLimits: a rule may lower each limit of a device by one, and may not set what the device
// has.
func TestOwnLimits(t *testing.T) {
	device := rxe.DefaultLimits()
	for _, l := range rxe.Limits() {
		own := device.Limit(l)
		if l == rxe.LimitUC {
			own = device.Limit(rxe.LimitQP)
		}
		if l == rxe.LimitMemory {
			own = 1 << 50
		} else if r, err := fault.Parse(fmt.Sprintf("limits set,%v=%d", l, own)); err == nil {
			t.Errorf("%s limits nothing", r.String())
		}
		if _, err := fault.Parse(fmt.Sprintf("limits set,%v=%d", l, own-1)); err != nil {
			t.Error(err)
		}
	}
}
