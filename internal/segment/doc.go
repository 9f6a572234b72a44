// Package segment is a virtual Ethernet segment: a switch, and the stations on it. Each device has
// a station, through which its queue pairs for raw packets send and receive. A frame goes to the
// stations that have its destination, and there to the queue pairs whose flow rules take it.
//
// No thread waits here. A frame is copied into the inbox of each receiver, which is bounded.
package segment
