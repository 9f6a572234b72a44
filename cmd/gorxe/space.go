package main

import (
	"fmt"

	"github.com/gorxe/gorxe/cmd/internal/doctor"
	"golang.org/x/sys/unix"
)

// enoughSpace reports a limit of the address space in which the processes of gorxe would die. Go's
// runtime reserves address space, and ends a process with a trace when it gets none.
func enoughSpace() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_AS, &limit); err != nil || limit.Cur >= doctor.LeastSpace {
		return nil // it is only the reason of a failure that may not happen
	}
	return fmt.Errorf("the address space of a process is limited to %d MiB, and gorxe needs %d MiB: raise it (ulimit -v), "+
		"or limit only the program: gorxe run -- sh -c 'ulimit -v N; exec PROGRAM'", limit.Cur>>20, doctor.LeastSpace>>20)
}
