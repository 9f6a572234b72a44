// Package sysfs is the part of a Linux host's file tree that RDMA programs look
// at, as it would be if the kernel had the devices: /sys/class/infiniband,
// /sys/class/infiniband_verbs, the /sys/devices/virtual directories behind them,
// and /dev/infiniband. It is data; who shows it to a program is not its business.
//
// A [Tree] both shows and hides: what it owns and does not have answers ENOENT,
// so that the host's own RDMA devices are not seen through it.
//
// # Who looks at what
//
//   - libibverbs (init.c, sysfs.c, cmd_device.c): lists class/infiniband_verbs,
//     opens uverbsN relative to that, reads ibdev, dev and abi_version there;
//     class/infiniband_verbs/abi_version; infiniband/DEV: its mtime, which tells
//     one incarnation of a device from the next, node_type, device/modalias
//     (absent, so that providers match by name), ports/N/gids and gid_attrs;
//     stats and opens /dev/infiniband/uverbsN, and failing that looks under
//     /dev/char.
//   - librdmacm: class/misc/rdma_cm/abi_version and /dev/infiniband/rdma_cm;
//     libibumad: class/infiniband_mad and /dev/infiniband/umadN. Both are absent
//     here, as without rdma_ucm and ib_umad loaded.
//   - UCX: realpath of infiniband/DEV; device/{vendor,device,local_cpus,
//     numa_node} (older versions warn when these are missing); gid_attrs; access
//     to the character device.
//   - NCCL: realpath of infiniband/DEV/device (it warns when there is none, and
//     its older forks give up), device/subsystem (platform: not a PCI device),
//     ports/1/gid_attrs/types.
//   - libfabric: realpath of infiniband/DEV/device. Its ucx provider reads
//     device/vendor and ports/1/rate.
//   - perftest: device/numa_node; with --report-counters any file below ports/1.
//   - rdma-core's Python tests: ports/1/pkeys, and device/net, which must be
//     absent: it announces RDMA CM to them. Linux rdma_rxe has no device/net
//     either.
//   - ibstat, node_exporter and the like: hca_type, and everything below ports/1;
//     some give up without counters/, older ones without board_id.
//   - hwloc: the link infiniband/DEV, which must not lead to devices/virtual, and by
//     device/{numa_node,local_cpus} where in the machine the device is.
//
// What a kernel's rdma_rxe does not have is the parent device (see parentDevice),
// hca_type, board_id and ports/1/counters, for the programs above. The last three are
// left out if a Device does not give them.
package sysfs
