// Package clock reads the monotonic clock as a plain number, which fits into an
// atomic variable.
package clock

import "time"

var start = time.Now()

// Now returns the nanoseconds since this process began.
func Now() int64 { return int64(time.Since(start)) }

// At is Now as of a time that was read already.
func At(t time.Time) int64 { return int64(t.Sub(start)) }
