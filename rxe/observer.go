package rxe

// Observer sees what the queue pairs of a device do with a program's memory. It is for tools that
// look for mistakes of programs. Any thread may call it, with a QP or a CQ locked. It must not
// block, and must not call the device. What it is given is valid during the call only.
type Observer interface {
	// Posted sees a send work request that was queued.
	Posted(q *QP, wr SendWR)
	// Accessed sees a range that a key lets a queue pair access now: n bytes at va, as the region
	// names them. need has the rights for that; it is 0 for a gather list, which is read. Of a
	// receive buffer the range is all that is left, however long the message is. A range may be
	// seen again before it is accessed.
	Accessed(q *QP, key uint32, va, n uint64, need Access)
	// Completed sees a completion that is about to be pushed.
	Completed(c *CQ, wc WC)
}
