//go:build !race

package testenv

// Race says that the race detector is on: it allocates, and is slow.
const Race = false
