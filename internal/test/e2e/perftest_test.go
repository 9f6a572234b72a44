package e2e

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// perftest is one call of one of perftest's programs.
type perftest struct {
	tool string // "send_bw"
	args string
	rank rank
	rows int // of the table that it prints: one per message size
}

// everySize is what -a runs: 2 bytes to 8 MiB.
const everySize = 23

// perftests is every program with every transport that it has, plain, with all
// sizes, and with each option that changes how it uses the device.
func perftests() (cases []perftest) {
	add := func(r rank, rows int, tool, format string, args ...any) {
		cases = append(cases, perftest{tool, fmt.Sprintf(format, args...), r, rows})
	}
	transports := map[string][]string{
		"send": {"-c RC", "-c UC", "-c UD"}, "write": {"-c RC", "-c UC"}, "read": {"-c RC"},
		"atomic": {"-A FETCH_AND_ADD", "-A CMP_AND_SWAP"},
	}
	for _, op := range []string{"send", "write", "read", "atomic"} {
		bw, lat := op+"_bw", op+"_lat"
		for i, transport := range transports[op] {
			first := standard
			if i == 0 {
				first = core
			}
			size := " -s 65536"
			switch {
			case op == "atomic":
				size = ""
			case transport == "-c UD":
				size = " -s 1024"
			}
			add(first, 1, bw, "%s%s -n 100", transport, size)
			add(first, 1, lat, "%s -n 30", transport)
			add(standard, 1, bw, "%s%s -n 100 -b", transport, size)
			add(standard, 1, bw, "%s%s -n 100 -q 8", transport, size)
			add(complete, 1, bw, "%s%s -n 100 -b -q 8", transport, size)
			add(complete, 1, bw, "%s%s -n 128 --post_list=32", transport, size)
			add(complete, 1, bw, "%s%s -n 100 -Q 1", transport, size)
			if op == "send" {
				add(standard, 1, bw, "%s%s -n 100 -e", transport, size)
				srq := " -q 4"
				if transport != "-c RC" {
					// One receive for each message, which perftest limits to -n:
					// without acknowledgements a message that finds none is lost,
					// and perftest waits for it for ever.
					srq = ""
				}
				add(standard, 1, bw, "%s%s -n 100 --use-srq%s", transport, size, srq)
				add(complete, 1, bw, "%s%s -n 128 --recv_post_list=32", transport, size)
				add(standard, 1, lat, "%s -n 30 -e", transport)
			} else if op != "write" { // it has no events
				add(complete, 1, bw, "%s%s -n 100 -e", transport, size)
			}
			if op == "send" || op == "write" {
				add(standard, 1, bw, "%s -n 128 -s 64 -I 64 --post_list=32", transport)
				add(complete, 1, lat, "%s -n 100 -s 64 -I 64", transport)
			}
			if op == "atomic" {
				continue
			}
			if transport == "-c UD" {
				add(complete, 11, bw, "%s -a -n 20 -m 2048", transport)
				add(complete, 11, lat, "%s -a -n 20 -m 2048", transport)
				continue
			}
			// for each size perftest measures the processor's clock: 0.2 s of computing
			sizes := complete
			if i == 0 && op == "send" {
				sizes = trappedOnly()
			}
			add(sizes, everySize, bw, "%s -a -n 10", transport)
			add(complete, everySize, lat, "%s -a -n 10", transport)
			add(complete, everySize, bw, "%s -a -n 10 -b", transport)
			for _, mtu := range []int{256, 512, 1024, 2048, 4096} {
				r := complete
				if i == 0 && (mtu == 256 || mtu == 4096) {
					r = trappedOnly()
				}
				add(r, 1, bw, "%s%s -n 100 -m %d", transport, size, mtu)
			}
		}
		add(complete, 1, lat, "-n 100 -x 2 --ipv6")
	}
	add(trappedOnly(), 1, "write_bw", "-n 100 -s 65536 -x 2 --ipv6")
	add(trappedOnly(), 1, "write_bw", "-n 100 -s 65536 -x 0 --ipv6")
	add(trappedOnly(), 1, "read_bw", "-n 100 -s 65536 -o 1")
	add(complete, 1, "write_bw", "-D 2 -s 65536")
	add(complete, 1, "write_bw", "-n 1000 -s 65536 -q 64")
	add(standard, 1, "write_lat", "-n 500 -s 2")
	add(standard, 1, "write_bw", "-n 4096 -s 8 --post_list=32")
	add(trappedOnly(), 1, "write_bw", "-n 100 -s 65536 --mr_per_qp -q 4")
	add(standard, 1, "send_bw", "-n 100 -s 65536 --use_old_post_send")
	// Many large datagrams at once. The receiver has 512 buffers.
	add(core, 1, "send_bw", "-c UD -n 512 -s 4096 --post_list=32")
	return cases
}

// A row of the table: size, iterations, figures. The latencies are "inf" where the
// machine is too busy for perftest to measure its clock.
var tableRow = regexp.MustCompile(`(?m)^ *\d+ +\d+ +([\d.]+|inf) +([\d.]+|inf)`)

func TestPerftest(t *testing.T) {
	besideOthers(t)
	need(t, "ib_write_bw")
	ways := topologies(t)
	for j, o := range ways {
		for i, c := range perftests() {
			if !selection.inTurn(c.rank, i, j, len(ways)) {
				continue
			}
			t.Run(fmt.Sprintf("%s/%s %s", o.name, c.tool, c.args), func(t *testing.T) {
				argv := []string{"ib_" + c.tool, "-d", o.device, "-p", "PORT", "-F"}
				args := strings.Fields(c.args)
				if !slices.Contains(args, "-x") {
					argv = append(argv, "-x", strconv.Itoa(gidIPv4))
				}
				out := o.exchange(t, append(argv, args...)...).good(t)
				if n := len(tableRow.FindAllString(out, -1)); n != c.rows {
					t.Errorf("%d sizes reported, not %d:\n%s", n, c.rows, out)
				}
			})
		}
	}
}
