// Package umad is the device /dev/infiniband/umadN, with which diagnostic programs send and
// receive management datagrams (Linux: user_mad.c). device.go opens files, ioctl.go registers
// agents, write.go sends, and read.go has what was received.
//
// The package must not know what a datagram means: package mad finds where it goes.
package umad
