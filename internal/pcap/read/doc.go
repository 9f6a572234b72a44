// Package read opens a capture by the name that a user gives, and has package
// conformance read and judge it. A context can end that early, and a terminal can
// show how far it is (progress.go).
package read
