// Package ether reads and writes Ethernet frames, and decides which queues receive them. It does
// no I/O, and all lengths in a frame may be lies.
package ether
