package joint

import (
	"time"

	"github.com/gorxe/gorxe/rxe"
)

const (
	// maxLinks is how many peers a process has. Twice: twice the descriptors and buffers. Half: a
	// segment has fewer daemons.
	maxLinks = 64
	// frameRoom is the room for a received frame. A peer that sends a longer one is none.
	frameRoom = rxe.MaxFrame
	// sendBuffer is the wish for what waits for a peer, in bytes of the kernel's memory: more is
	// lost. Twice: a burst waits longer. Half: more is lost while no processor is free.
	sendBuffer = 4 << 20
	// lockTime is how long a process waits for others that join.
	lockTime  = 5 * time.Second
	lockPause = 10 * time.Millisecond
)
