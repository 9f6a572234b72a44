package bench

import (
	"fmt"
	"regexp"
	"strconv"
)

// Kind is what a row measures, and in what unit.
type Kind string

const (
	Bandwidth Kind = "bandwidth" // GiB/s
	// µs, half a round trip, or all of it for READs and atomics: the median of a run
	Latency   Kind = "latency"
	Messages  Kind = "messages"  // per second
	Call      Kind = "call"      // µs, one system call
	Processor Kind = "processor" // µs of processor time
	Access    Kind = "access"    // µs of processor time, a read and a write of a few bytes
	Distance  Kind = "distance"  // ns, between two processors and back
)

// Unit is the unit of a kind's figures.
func (k Kind) Unit() string {
	switch k {
	case Bandwidth:
		return "GiB/s"
	case Messages:
		return "messages/s"
	case Distance:
		return "ns"
	default:
		return "µs"
	}
}

// Where the two programs of a row are.
const (
	OneDaemon  = "one" // under two runs of one daemon
	OneRun     = "run" // under one run of that daemon
	TwoDaemons = "two" // under two, in two network namespaces joined by a veth
)

// atomicLat has no option for the size: it is 8 bytes.
const atomicLat = "ib_atomic_lat"

// Row is one line of the table, in one place.
type Row struct {
	Place    string `json:"place"`
	Tool     string `json:"tool"`
	Kind     Kind   `json:"kind"`
	Size     int    `json:"size"` // of a message, bytes
	MTU      int    `json:"mtu"`
	PostList int    `json:"post_list,omitempty"`
}

// Rows is everything that is measured, in the order of the table.
func Rows() (rows []Row) {
	for _, place := range []string{OneDaemon, OneRun, TwoDaemons} {
		for _, tool := range []string{"ib_write_bw", "ib_send_bw", "ib_read_bw"} {
			for _, mtu := range []int{1024, 4096} {
				for _, size := range []int{4 << 10, 64 << 10, 1 << 20} {
					rows = append(rows, Row{Place: place, Tool: tool, Kind: Bandwidth, Size: size, MTU: mtu})
				}
			}
		}
		rows = append(rows,
			Row{Place: place, Tool: "ib_write_lat", Kind: Latency, Size: 2, MTU: 4096},
			Row{Place: place, Tool: "ib_send_lat", Kind: Latency, Size: 2, MTU: 4096},
			Row{Place: place, Tool: "ib_read_lat", Kind: Latency, Size: 8, MTU: 4096},
			Row{Place: place, Tool: atomicLat, Kind: Latency, Size: 8, MTU: 4096},
			Row{Place: place, Tool: "ib_write_bw", Kind: Messages, Size: 8, MTU: 4096},
			Row{Place: place, Tool: "ib_send_bw", Kind: Messages, Size: 8, MTU: 4096},
			Row{Place: place, Tool: "ib_read_bw", Kind: Messages, Size: 8, MTU: 4096},
			Row{Place: place, Tool: "ib_write_bw", Kind: Messages, Size: 8, MTU: 4096, PostList: 32})
	}
	return rows
}

// Select returns the rows whose names match, all of them if want is nil.
func Select(rows []Row, want *regexp.Regexp) (selected []Row) {
	for _, r := range rows {
		if want == nil || want.MatchString(r.Name()) {
			selected = append(selected, r)
		}
	}
	return selected
}

// oneProgramPolls reports whether the row's latency is that of a round trip, which one program
// makes.
func (r Row) oneProgramPolls() bool { return r.Tool == "ib_read_lat" || r.Tool == atomicLat }

// Name tells rows apart: "two/ib_write_bw/64KiB/mtu4096".
func (r Row) Name() string { return r.Place + "/" + r.what() }

// what is the name without the place.
func (r Row) what() string {
	name := r.Tool + "/" + size(r.Size)
	switch {
	case r.Kind == Bandwidth:
		name += "/mtu" + strconv.Itoa(r.MTU)
	case r.PostList > 0:
		name += "/post_list=" + strconv.Itoa(r.PostList)
	}
	return name
}

func size(n int) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%dMiB", n>>20)
	case n >= 1<<10:
		return fmt.Sprintf("%dKiB", n>>10)
	default:
		return fmt.Sprintf("%dB", n)
	}
}

// txDepth is perftest's default of work requests under way, of which -n and
// --post_list have to be multiples in some of its modes.
const txDepth = 128

// args are the arguments of perftest for n messages.
func (r Row) args(n int) []string {
	args := []string{
		"-d", deviceName, "-x", ipv4GID, "-F", // -F: no complaints about the processor's frequency
		"-m", strconv.Itoa(r.MTU), "-n", strconv.Itoa(n),
	}
	if r.Tool != atomicLat {
		args = append(args, "-s", strconv.Itoa(r.Size))
	}
	if r.Kind != Latency {
		args = append(args, "-N") // no peak: it takes the time of every message
	}
	if r.PostList > 0 {
		args = append(args, "--post_list="+strconv.Itoa(r.PostList))
	}
	return args
}

// firstTry is how many messages a row begins with, to learn how long one takes.
func (r Row) firstTry() int {
	if r.Size > 64<<10 {
		return txDepth
	}
	return 8 * txDepth
}
