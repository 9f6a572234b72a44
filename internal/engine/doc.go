// Package engine is a running device: an rxe.Device joined to a rocev2.Port and
// to the clock.
package engine
