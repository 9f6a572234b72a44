// Package doorbell has what the trap knows of doorbells, the one system call of a post_send:
// which of them are trapped (Mode), and those that are not (Watch).
//
// It starts no thread. Package trap has the one that takes doorbells, and makes trapped calls
// wait for the doorbells before them. Package sched decides when and where that thread looks.
package doorbell
