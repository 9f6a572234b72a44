//go:build !race

// Package race says whether the race detector is on.
package race

// Enabled reports whether the tests run under the race detector.
const Enabled = false
