// Package plot collects the numbers behind charts of a capture. For each direction of a connection
// it knows which PSNs were sent, sent again and acknowledged, and how many bytes moved. It knows
// how long acknowledgements took, and how much work was under way. It has a bound of memory: of a
// long capture it keeps fewer points, and says so. Its users are the page of package ladder and the
// trace for Perfetto (trace.go).
package plot
