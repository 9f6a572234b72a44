// Package report writes what package conformance and package replay found in
// captures: as text (text.go, replay.go), as JSON (json.go) and as JUnit XML
// (junit.go). It writes to an io.Writer and opens no file.
package report
