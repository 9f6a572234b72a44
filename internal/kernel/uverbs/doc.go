// Package uverbs is the kernel's user ABI for RDMA devices, answered in user
// space: what a program says to /dev/infiniband/uverbsN with ioctl
// (RDMA_VERBS_IOCTL) and with write() reaches an rxe.Device, and the queues that
// librxe, the provider of rdma-core, keeps in shared memory are served in place.
//
// A request comes in through File.Ioctl (ioctl.go, attrs.go) or File.Write
// (write.go), becomes a call (call.go), and goes to the handler that the schema
// names (schema.go, schema_write.go): query.go, pd.go, mr.go, cq.go, qp.go and
// so on. A verb that has both forms has one implementation. What it makes is an
// object with a handle (handles.go), which belongs to the open File (file.go).
//
// Work goes past all that: librxe puts work requests into its queue and rings a
// doorbell, a write() (qp_post.go), and the daemon takes them from there
// (sendring.go, wqe.go). Receives are fetched when a message comes (recvring.go),
// completions are put where the program polls (cqring.go), and events are
// records in a pipe (channel.go, asyncfd.go, eventpipe.go). All queues of a File
// lie in one memory file (arena.go, ring.go).
//
// How a program's system calls get here it does not know: an interposer hands
// them over as calls of File, with a Caller that stands for the program's memory
// and descriptors. Everything that a program wrote, requests and shared queues
// alike, is taken for hostile: it is copied once, the copy is checked, and the
// copy is used. Its memory may never answer: nothing that others need is held
// while it is touched.
//
// Limits and errno values are those of Linux (drivers/infiniband/core and
// drivers/infiniband/sw/rxe), because rdma-core acts on them. What rdma_rxe does
// not have is refused as it refuses it; beyond rdma_rxe of Linux 6.1 there are
// on-demand regions and reregistration.
package uverbs
