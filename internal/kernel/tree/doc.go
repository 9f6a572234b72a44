// Package tree is the part of a Linux host's file tree that RDMA programs read. It shows the
// files that the kernel would have for the devices: /sys/class/infiniband,
// /sys/class/infiniband_verbs, the device directories behind them, and /dev/infiniband. The
// package is data. It does not know how a program gets to see it.
//
// A [Tree] both shows and hides. A path that it owns, but has no file for, answers ENOENT. So
// the host's own RDMA devices stay hidden.
//
// # Readers
//
//   - libibverbs (init.c, sysfs.c, cmd_device.c) lists class/infiniband_verbs. It opens
//     uverbsN relative to that, and reads ibdev, dev and abi_version there. It reads
//     class/infiniband_verbs/abi_version. In infiniband/DEV it reads node_type, the tables
//     ports/N/gids and gid_attrs, and the mtime, which tells a device from its successor.
//     device/modalias is absent, so that providers match by name. It opens
//     /dev/infiniband/uverbsN, and if that fails it looks under /dev/char.
//   - librdmacm reads class/misc/rdma_cm/abi_version and opens /dev/infiniband/rdma_cm.
//   - libibumad reads ibdev and port of class/infiniband_mad/umadN, and the attributes of
//     infiniband/DEV and of its ports. It opens /dev/infiniband/umadN.
//   - UCX resolves infiniband/DEV. It reads gid_attrs and device/vendor, device, local_cpus
//     and numa_node; older versions warn if these are missing. It checks its access to the
//     character device.
//   - NCCL resolves infiniband/DEV/device. It warns if that is missing, and older forks give
//     up. It reads device/subsystem (platform: not a PCI device) and
//     ports/1/gid_attrs/types.
//   - libfabric resolves infiniband/DEV/device. Its ucx provider reads device/vendor and
//     ports/1/rate.
//   - perftest reads device/numa_node. With --report-counters it reads any file below
//     ports/1.
//   - rdma-core's Python tests read ports/1/pkeys. They test RDMA CM if device/net names a
//     network interface. Linux rdma_rxe has no device/net.
//   - ibstat, node_exporter and others read hca_type and everything below ports/1. Some give
//     up without counters, older ones without board_id.
//   - hwloc follows the link infiniband/DEV, which must not lead to devices/virtual. It finds
//     the place of the device in the machine by device/numa_node and local_cpus.
//
// The rdma_rxe of Linux 6.1 has no parent device (see parentDevice), no hca_type, no board_id
// and no ports/1/counters. They exist for the programs above. The last three are left out if
// a Device does not set them.
package tree
