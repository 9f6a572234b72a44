//go:build race

package engine

import (
	"runtime"
	"unsafe"
)

// The race detector does not see an order of events that goes through a socket
// by raw system calls, as it does for package net: a program that reads a buffer
// after the completion of a READ or of its peer's WRITE would be called racy.
// So what a send publishes, a receive acquires.
var wireSync byte

func raceSend()    { runtime.RaceReleaseMerge(unsafe.Pointer(&wireSync)) }
func raceReceive() { runtime.RaceAcquire(unsafe.Pointer(&wireSync)) }
