package eventfile

import (
	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/quota"
)

// goner tells whether the program has closed one of many files since the last question. The
// question costs no more for many files than for few: it is an epoll descriptor with the writing
// ends.
type goner struct {
	epoll   int
	budget  *quota.Budget
	unsound bool // an end is missing: the answer is always yes
}

var gonerCost = quota.Cost{Files: 1}

// newGoner makes one without files. The budget pays, even beyond its limit: a list has one at most,
// for more than fewToSweep files.
func newGoner(budget *quota.Budget) *goner {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return &goner{epoll: -1, unsound: true}
	}
	budget.Charge(gonerCost)
	return &goner{epoll: epoll, budget: budget}
}

// watch adds a writing end, of which epoll reports EPOLLERR when no reading end is left. The kernel
// removes it when it is closed.
//
// With EPOLLET each last close is reported once. So an end that a blocked program keeps from being
// closed is not found at each question. A reading end that this process opens for a while (reopen)
// ends with a close that is reported again.
func (g *goner) watch(fd int) {
	if !g.unsound {
		g.unsound = unix.EpollCtl(g.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLET}) != nil
	}
}

// any reports whether a file was closed since the last call.
func (g *goner) any() bool {
	var events [closesPerRead]unix.EpollEvent
	for found := g.unsound; ; found = true {
		n, err := unix.EpollWait(g.epoll, events[:], 0)
		if err != nil || n == 0 {
			return found
		}
	}
}

func (g *goner) close() {
	if g == nil || g.epoll < 0 {
		return
	}
	_ = unix.Close(g.epoll) // nothing to be written back
	g.budget.Give(gonerCost)
}
