//go:build !amd64

package userfault

import "golang.org/x/sys/unix"

const makesCalls = false

// makeFile is not there for this architecture.
func (t tracee) makeFile(int) (int, error) { return -1, unix.EOPNOTSUPP }
