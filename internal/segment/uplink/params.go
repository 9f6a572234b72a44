package uplink

import "github.com/gorxe/gorxe/rxe"

const (
	// frameRoom is the room for a received frame. A longer one is lost.
	frameRoom = rxe.MaxFrame
	// socketBuffer is the wish for the socket's buffers, in bytes. Twice: a burst of frames waits
	// longer. Half: more are lost while no processor is free.
	socketBuffer = 4 << 20
)
