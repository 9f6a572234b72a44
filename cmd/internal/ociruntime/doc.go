// Package ociruntime is gorxe as a container runtime: `docker run --runtime=gorxe` gives every
// process of an unmodified image an RDMA device.
//
// It changes the bundle that a container engine has made, and then replaces itself with
// runc or crun, which does the work. It changes three things in config.json (OCI Runtime
// Specification, config.md). The gorxe binary is mounted into the container, and so is the
// directory of a socket. The process is started by gorxe run, and so is one that `exec` adds.
//
// The image is not trusted. What it says in its environment chooses devices inside the
// container, and never a path of the host.
package ociruntime
