// Package uplink joins a station to a network interface, with a packet socket (packet(7)). It takes
// nothing away from the host: the host's sockets get the same frames. It needs CAP_NET_RAW.
package uplink
