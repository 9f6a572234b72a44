// Package clock reads the monotonic clock as a plain number, which fits into an
// atomic variable.
package clock

import "time"

var start = time.Now()

// Now returns the nanoseconds since this process began.
func Now() int64 { return int64(time.Since(start)) }
