// Package engine is a running device: an rxe.Device joined to a rocev2.Port and
// to the clock. It knows neither the protocol nor its users: package verbsapi gives the
// device to Go programs, and package daemon to unmodified programs.
package engine
