//go:build race

package sched

// The locks of the race detector spin until they are free (sched_yield). A thread of the class
// would take the processor from the thread that has the lock, and spin for up to a second.
const raceDetector = true
