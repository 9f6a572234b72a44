// Package procmem reads and writes the memory of another process, as an adapter does by DMA.
// The memory belongs to an address space, not to a process number. An access may block for
// as long as the program likes.
//
// space.go has the address space with two ways to access it. vectors.go moves many pieces at
// once, atomic.go has the atomics, and check.go reports whether a range is mapped. attempts.go
// limits the threads that blocked accesses may occupy. access.go opens a program's memory and
// explains a refusal.
//
// The package knows nothing of system calls that are trapped, nor of devices.
package procmem
