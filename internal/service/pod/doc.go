// Package pod gives the containers that share a network namespace one daemon. They do in a pod of
// Kubernetes or podman, and with `--network container:NAME`. A device has UDP port 4791 of its
// address, and the namespace has that port once.
//
// The container runtime calls Join for each container, when the container's first process exists
// and executes no program of the image yet. Join makes a socket in the container. The first
// container of a namespace starts the daemon there (Serve); later ones hand their sockets to it.
// The daemon runs outside of the containers, and watches their first processes: it ends when none
// is left. Its devices exist from the moment in which a program of a container connects, because an
// engine may give the namespace its addresses after the container was made.
package pod
