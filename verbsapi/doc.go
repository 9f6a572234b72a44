// Package verbsapi is RDMA verbs for Go programs: a RoCEv2 device that runs
// inside the process, on a UDP socket of an address of this host.
//
// A program opens a Context (Open, OpenDevice), allocates a PD, registers
// buffers (PD.RegMR), creates a CQ and a QP, connects it (Connect) and posts
// work requests. The words are libibverbs', in Go spelling; docs/verbs.md lists
// each C call with its Go call. What differs is what Go does differently:
//
//   - Buffers are []byte. A region's address is that of its first byte, used as
//     a number only; MR.SGE names a part of it.
//   - What waits takes a context.Context.
//   - Errors unwrap to the sentinels of errors.go. A posting call also returns
//     how many work requests it took, which is the index of the bad one.
//   - Every object is safe for concurrent use. Use after Destroy or Close is
//     ErrClosed. Context.Close closes everything beneath the context.
//   - Functions of libibverbs that a device in software has no use for exist and
//     return ErrNotSupported (unsupported.go).
//
// Memory of a region is written by the device whenever a peer with its rkey says
// so, as on any RDMA device. The program sees what a completion it polled
// announces; what it reads at other times may be half written.
package verbsapi
