// Package doorbell has what the trap knows of doorbells, the one system call of a post_send:
// which of them are trapped (Mode), and those that are not (Watch).
//
// A thread that takes doorbells learns from them when to look next (Pace), and on which processor
// (Place).
//
// It starts no thread. Package trap has the one that takes doorbells, and makes trapped calls
// wait for the doorbells before them.
package doorbell
