// Package inflight is what the process that answers a program's calls leaves to the keeper,
// which answers them when that process has died.
//
// A call that was received and never answered hangs for ever, even if another process holds
// the listener: nobody receives it twice. So what is in hand stands in a page that survives
// the process (page.go). The keeper has no table of files, and recognises them by their names
// (marks.go).
package inflight
