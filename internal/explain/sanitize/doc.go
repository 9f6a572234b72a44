// Package sanitize finds misuse of verbs. A Session gets events of the programs of a run: objects
// that they make and end, work requests, and failures. It returns Findings.
//
// The package does no I/O. What it keeps is bounded (params.go), and a Session without room for
// more finds less. A check that has to guess is off, and warns: a correct program has no finding of
// level error.
//
// It is below package explain, whose words for failures serve a program that may be right. A
// finding says that a program is wrong.
package sanitize
