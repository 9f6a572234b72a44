// Package nri is gorxe as a plugin of NRI, the Node Resource Interface of containerd and CRI-O. A
// container of a pod that asks for it has an RDMA device, though no runtime class names
// gorxe-runtime, and no configuration changes.
//
// The package changes what an engine is about to make as gorxe-runtime changes a bundle. A runtime
// sees each process of a container. NRI ends when the container is made, so what exec adds has no
// device unless gorxe run starts it there.
package nri
