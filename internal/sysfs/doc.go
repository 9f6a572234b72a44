// Package sysfs is the part of a Linux host's file tree that RDMA programs look
// at, as it would be if the kernel had the devices: /sys/class/infiniband,
// /sys/class/infiniband_verbs and /dev/infiniband. It is data; who shows it to a
// program is not its business.
package sysfs
