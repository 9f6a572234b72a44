//go:build race

package engine

import (
	"runtime"
	"unsafe"
)

// The race detector sees the order of events through package net, but not through raw
// system calls on a socket. It would report a program that reads a buffer after the
// completion of a READ, or of its peer's WRITE. So a send releases, and a receive acquires.
var wireSync byte

func raceSend()    { runtime.RaceReleaseMerge(unsafe.Pointer(&wireSync)) }
func raceReceive() { runtime.RaceAcquire(unsafe.Pointer(&wireSync)) }
