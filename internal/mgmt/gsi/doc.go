// Package gsi is the general services interface of a device: it handles the management
// datagrams that come to queue pair 1 (IBA 13.5.1).
//
// A Mux copies each datagram into one of two bounded queues (lane.go). A goroutine of each
// hands the datagrams to the agents of their classes (mux.go). So no thread of the data path
// runs an agent, and an agent may send to its own device. Requests without an agent are answered as
// Linux answers them (answer.go).
//
// The package must not know what the datagrams of a class mean, except those of
// performance management. Every port has an agent of that class (pma.go).
package gsi
