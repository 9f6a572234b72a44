package trap

import (
	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/sys/userfault"
)

var _ kernel.Lender = (*caller)(nil)

// LendFaults implements kernel.Lender. The user pays for the thread that it takes, which a program
// can keep for as long as it lives.
func (c *caller) LendFaults(got func(fd int, err error)) {
	owner, err := c.owner()
	budget := c.r.s.cfg.Budget
	if err == nil {
		err = budget.TakeNow(threadCost)
	}
	if err != nil {
		got(-1, err)
		return
	}
	listener, id := c.r.s.listener, c.r.n.ID
	userfault.Borrow(c.r.thread(), owner.pidfd, func() bool { return listener.Valid(id) }, func(fd int, err error) {
		defer budget.Give(threadCost)
		got(fd, err)
	})
}
