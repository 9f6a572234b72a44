// Package joint joins a segment to those of other processes of this user. Each process has a socket
// (SOCK_SEQPACKET) in a directory, and is connected to each other one. A message is a frame.
//
// The only way in is a directory of this user, and the kernel says whose process a peer is. A slow
// peer loses frames, and holds up nobody. A peer that sends anything but frames is cut off.
package joint
