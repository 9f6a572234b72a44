package segment

import (
	"github.com/gorxe/gorxe/internal/segment/ether"
	"github.com/gorxe/gorxe/rxe"
)

const (
	// maxLearned is how many addresses a segment learns. Frames to others go to all stations.
	// Twice: more memory for a program that makes addresses up.
	maxLearned = 4096
	// maxSegments is into how many frames one is cut at most: the longest one into 64 bytes each.
	// Twice: one work request takes twice the time of the thread that has it.
	maxSegments = rxe.MaxFrame / 64
	// vlanSpace is the room for VLAN tags that a station leaves beside its MTU: two tags (IEEE
	// 802.1ad).
	vlanSpace = 8
	// HeaderSpace is what a frame may have beside its MTU.
	HeaderSpace = ether.HeaderSize + vlanSpace
)
