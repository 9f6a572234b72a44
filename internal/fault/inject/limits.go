package inject

import (
	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/rxe"
)

// limitWatch implements rxe.LimitWatch.
type limitWatch struct{ rules *fault.Limits }

func (w limitWatch) Compared(l rxe.Limit, refused bool) { w.rules.Compared(l.String(), refused) }

// Subdevice returns the device with the limits that the rules of a set have now. An error names a
// limit that is not lower than the device's own.
func Subdevice(dev *rxe.Device, set *fault.Set) (*rxe.Subdevice, error) {
	rules := set.Limits(dev.Name())
	if rules == nil {
		return dev.Whole(), nil
	}
	lower := make(map[rxe.Limit]uint64)
	for _, l := range rxe.Limits() {
		if most, ok := rules.Lowest(l.String()); ok {
			lower[l] = most
		}
	}
	return dev.Subdevice(lower, limitWatch{rules})
}
