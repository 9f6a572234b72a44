package notify

import "golang.org/x/sys/unix"

// interruptSignal is the number of a signal that no one uses and that Go's runtime ignores: a
// real-time signal, away from both ends, where glibc and other libraries choose theirs.
const interruptSignal = unix.Signal(63)
