// Package uverbs is /dev/infiniband/uverbsN, answered in user space. A program sends
// requests to it with ioctl (RDMA_VERBS_IOCTL) and with write(). They reach an
// rxe.Device.
//
// A request comes in through File.Ioctl (ioctl.go, attrs.go) or File.Write (write.go).
// It becomes a call (call.go), which goes to the handler that the tables name (schema.go,
// schema_write.go): query.go, mr.go, cq.go, qp.go and so on. A verb that has both forms
// has one implementation. It makes an object with a handle (handles.go), and the object
// belongs to the open File (file.go).
//
// Work requests do not come as requests. The provider puts them into its queue in shared
// memory and makes a doorbell, a write() (qp_post.go). The queues, and what else is the
// provider's, are behind provider.Driver. Events go through package eventfile.
//
// The package does not know how a program's system calls get here. The trap calls the
// methods of File, with a kernel.Caller that stands for the program's memory and
// descriptors.
//
// Everything that a program wrote is hostile. It is copied once, the copy is checked, and
// the copy is used. Its memory may never answer, so no lock that others need is held
// while it is accessed.
//
// Limits and errno values are those of Linux (drivers/infiniband/core and
// drivers/infiniband/sw/rxe), because rdma-core acts on them. Requests that rdma_rxe does
// not have are refused as it refuses them. Two features of newer kernels exist: on-demand
// regions and reregistration.
package uverbs
