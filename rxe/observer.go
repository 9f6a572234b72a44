package rxe

// Observer sees what queue pairs do with a program's memory. It is for tools that look for mistakes
// of programs. Any thread may call it, with the QP locked. It must not call the device, and blocks
// only as long as an access to that memory. What it is given is valid during the call only.
type Observer interface {
	// Posted sees a send work request that was queued.
	Posted(q *QP, wr SendWR)
	// Accessed sees a range that a key lets a queue pair access now: n bytes at va, as the region
	// names them. need has the rights for that; it is 0 for a gather list, which is read. Of a
	// receive buffer the range is all that is left, however long the message is. A range may be
	// seen again before it is accessed.
	Accessed(q *QP, key uint32, va, n uint64, need Access)
	// Completed sees the end of a work request, before its completion is pushed. There is none if
	// pushed is not set: the request succeeded, and is not signaled.
	Completed(q *QP, wc WC, pushed bool)
}
