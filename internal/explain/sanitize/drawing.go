package sanitize

import (
	"fmt"
	"strings"

	"github.com/gorxe/gorxe/internal/explain/plural"
	"github.com/gorxe/gorxe/rxe"
)

// beyond says how far n bytes at va are from a region, and draws both.
func (r *Region) beyond(va, n uint64) (distance string, drawing []string) {
	base, end := r.Base, r.Base+r.Length
	switch {
	case va < base:
		distance = fmt.Sprintf("which begins %s before the region of %s", plural.Of(base-va, "byte"), plural.Of(r.Length, "byte"))
	case va >= end:
		distance = fmt.Sprintf("which begins %s past the end of the region of %s", plural.Of(va-end, "byte"), plural.Of(r.Length, "byte"))
	default:
		distance = fmt.Sprintf("which ends %s past the end of the region of %s", plural.Of(n-(end-va), "byte"), plural.Of(r.Length, "byte"))
	}
	low, high := min(base, va), max(end, va+n)
	if high <= low { // the range wraps
		return distance, nil
	}
	at := func(address uint64) int { return int(float64(address-low) / float64(high-low) * columns) }
	row := func(from, to uint64, mark string) string {
		left := min(at(from), columns-1)
		return strings.Repeat(" ", left) + strings.Repeat(mark, max(at(to)-left, 1))
	}
	return distance, []string{
		fmt.Sprintf("region  %-*s  %#x to %#x", columns, row(base, end, "="), base, end),
		fmt.Sprintf("access  %-*s  %#x to %#x", columns, row(va, va+n, "#"), va, va+n),
	}
}

// rights names what an access needs.
func rights(a rxe.Access) string {
	var list []string
	for _, right := range []struct {
		bit  rxe.Access
		name string
	}{
		{rxe.AccessLocalWrite, "IBV_ACCESS_LOCAL_WRITE"}, {rxe.AccessRemoteWrite, "IBV_ACCESS_REMOTE_WRITE"},
		{rxe.AccessRemoteRead, "IBV_ACCESS_REMOTE_READ"}, {rxe.AccessRemoteAtomic, "IBV_ACCESS_REMOTE_ATOMIC"},
		{rxe.AccessFlushGlobal, "IBV_ACCESS_FLUSH_GLOBAL"}, {rxe.AccessFlushPersist, "IBV_ACCESS_FLUSH_PERSISTENT"},
	} {
		if a&right.bit != 0 {
			list = append(list, right.name)
		}
	}
	if list == nil {
		return "a right"
	}
	return strings.Join(list, " and ")
}
