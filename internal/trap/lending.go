package trap

import (
	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/sys/userfault"
)

var _ kernel.Lender = (*caller)(nil)

// LendFaults implements kernel.Lender.
func (c *caller) LendFaults(got func(fd int, err error)) {
	owner, err := c.owner()
	if err != nil {
		got(-1, err)
		return
	}
	listener, id := c.r.s.listener, c.r.n.ID
	userfault.Borrow(c.r.thread(), owner.pidfd, func() bool { return listener.Valid(id) }, got)
}
