package eventfile

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/sys/fdid"
)

// PipeCost is what a pipe takes of a budget. One of its files waits for room in it.
var PipeCost = quota.Cost{Memory: pipeMemory, Files: 2}

// openEnds makes a pipe that the budget pays for. Its ends do not block. closeEnds closes
// them.
func openEnds(budget *quota.Budget) (r, w int, id fdid.ID, err error) {
	if err := budget.Take(PipeCost); err != nil {
		return 0, 0, id, fmt.Errorf("event pipe: %w", err)
	}
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		budget.Give(PipeCost)
		return 0, 0, id, fmt.Errorf("event pipe: %w", err)
	}
	r, w = fds[0], fds[1]
	if id, err = fdid.Of(r); err != nil {
		closeEnds(r, w, budget)
		return 0, 0, id, fmt.Errorf("event pipe: %w", err)
	}
	return r, w, id, nil
}

// closeEnds closes the ends of a pipe and gives back what it costs; r is -1 if it is closed
// already. Closing takes the pipe's lock (pipe_release), which the program may hold for long,
// so a thread of the budget does it.
func closeEnds(r, w int, budget *quota.Budget) {
	budget.Background(func() {
		if r >= 0 {
			_ = unix.Close(r) // nothing to be written back
		}
		_ = unix.Close(w)
		budget.Give(PipeCost)
	})
}
