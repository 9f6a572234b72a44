// Package early recognizes clients of RDMA CM that connected before their server listened.
package early

import "regexp"

// refused is what such clients print: rping's and perftest's words for a REJ with reason 8
// (no listener) and an unreachable server, and qperf's for a REJ.
var refused = regexp.MustCompile(`RDMA_CM_EVENT_REJECTED; error: 8|RDMA_CM_EVENT_UNREACHABLE; error: 1\b|Event rejected`)

// Runs is how many runs of a client may end that way.
const Runs = 20

// Client reports whether a client that printed out, and ended with the exit status code, came
// too early. The servers of perftest make a listener for each connection, and nothing tells the
// client when. qperf's server announces its port before it listens. Another run may meet a
// faster server.
func Client(code int, out string) bool { return code != 0 && refused.MatchString(out) }
