// Package proto is what `gorxe run`, `gorxe status` and a daemon say to each other. It has
// the messages, the connection that carries them, the client's side of that connection, and
// the values that travel in messages.
//
// message.go has the requests and replies, conn.go the connection, and socket.go the paths
// where a daemon listens. client.go makes requests, and questions.go is how a daemon asks a
// keeper for what only that may open. spec.go and specs.go describe devices, speed.go their
// speed, status.go the report of a daemon, and build.go tells builds of gorxe apart.
//
// The package knows no device and no program.
package proto
