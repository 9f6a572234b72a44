// Package procmem reads and writes the memory of another process, as an adapter
// does by DMA: it belongs to an address space, not to a process number, and an
// access may block for as long as the program likes.
//
// space.go is the address space with its two ways in, vectors.go moves many pieces
// at once, atomic.go has the atomics, check.go answers whether a range is mapped,
// and attempts.go bounds the threads that blocked accesses may occupy. access.go
// opens a program's memory and explains a refusal.
//
// The package knows nothing of system calls that are trapped, nor of devices.
package procmem
