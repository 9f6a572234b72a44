package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// pingpong is one call of one of libibverbs' examples. All of them run the same
// exchange; -c makes the receiver compare what came.
type pingpong struct {
	tool string
	args string
	rank rank
}

// pingpongs is every tool with every GID, polling and waiting, and sizes; those
// of rank core and standard name each value of each parameter at least once.
func pingpongs() (cases []pingpong) {
	for _, tool := range []string{"rc", "uc", "ud", "srq"} {
		sizes := []int{1, 4096, 1 << 20}
		if tool == "ud" {
			sizes = []int{1, 2048} // one packet
		}
		for _, wait := range []string{"", " -e"} {
			for _, gid := range []int{gidLinkLocal, gidIPv4, gidIPv6} {
				for _, size := range sizes {
					c := pingpong{tool, fmt.Sprintf("-g %d -s %d%s", gid, size, wait), complete}
					switch {
					case gid == gidIPv4 && size >= 2048 && size <= 4096:
						c.rank = core
					case gid == gidIPv4, wait == "" && size <= 4096 && size >= 2048, wait != "" && gid == gidIPv6 && size == 1:
						c.rank = standard
					}
					cases = append(cases, c)
				}
			}
		}
	}
	return append(cases,
		pingpong{"rc", "-g 1 -m 256 -s 65536", standard},
		pingpong{"rc", "-g 1 -m 512 -s 65536", complete},
		pingpong{"rc", "-g 1 -m 2048 -s 65536", complete},
		pingpong{"rc", "-g 1 -m 4096 -s 65536", standard},
		pingpong{"rc", "-g 1 -N", standard},    // the extended posting calls
		pingpong{"rc", "-g 1 -e -N", complete}, //
		pingpong{"uc", "-g 1 -m 4096 -s 65536", standard},
		pingpong{"srq", "-g 1 -q 1", complete},
		pingpong{"srq", "-g 1 -q 64 -r 64 -e", standard},
		pingpong{"rc", "-g 1 -n 20000", complete},
		pingpong{"rc", "-g 1 -e -n 20000", complete},
	)
}

var iterations = regexp.MustCompile(`(?m)^(\d+) iters in`)

func TestPingpong(t *testing.T) {
	besideOthers(t)
	need(t, "ibv_rc_pingpong")
	ways := topologies(t)
	exchanges := "50" // on a busy machine each one waits for the scheduler
	if full {
		exchanges = "200"
	}
	for j, o := range ways {
		for i, c := range pingpongs() {
			if !selection.inTurn(c.rank, i, j, len(ways)) {
				continue
			}
			t.Run(fmt.Sprintf("%s/%s %s", o.name, c.tool, c.args), func(t *testing.T) {
				argv := append([]string{"ibv_" + c.tool + "_pingpong", "-d", o.device, "-p", "PORT", "-c"}, strings.Fields(c.args)...)
				if !strings.Contains(c.args, "-n ") {
					argv = append(argv, "-n", exchanges)
				}
				out := o.exchange(t, argv...).good(t)
				if !iterations.MatchString(out) || strings.Contains(out, "invalid data") {
					t.Errorf("unexpected output:\n%s", out)
				}
			})
		}
	}
}
