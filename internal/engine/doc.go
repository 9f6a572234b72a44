// Package engine is a running device: an rxe.Device joined to a rocev2.Port and
// to the clock. It knows neither the protocol nor who uses the device: package
// verbsapi gives it to Go programs, package daemon to unmodified ones.
package engine
