package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// mlx5Pingpongs are what each release's ibv_*_pingpong does with an adapter. With -e and -t it
// fails if an event is for a completion that it has polled already.
func mlx5Pingpongs() (lines []string) {
	for _, options := range []string{"-c", "-c -e", "-c -N", "-c -t", "-c -o", "-c -j", "-c -N -t", "-c -N -j", "-c -s 65536 -e"} {
		lines = append(lines, "ibv_rc_pingpong -g 1 -n 100 "+options)
	}
	for _, options := range []string{"uc", "ud -s 1024", "srq"} {
		tool, rest, _ := strings.Cut(options, " ")
		for _, more := range []string{"", " -c", " -c -e"} {
			lines = append(lines, strings.TrimSpace("ibv_"+tool+"_pingpong -g 1 -n 100 "+rest)+more)
		}
	}
	return lines
}

// mlx5Perftests are perftest's eight programs, over each service that they have. The newest one
// refuses -e for WRITE. ib_send_lat with -e takes the event of a receive for that of a SEND if it
// comes first, and ends (perftest's run_iter_lat_send).
func mlx5Perftests() (lines []string) {
	for _, test := range []string{"send", "write", "read", "atomic"} {
		for _, kind := range []string{"bw", "lat"} {
			for _, service := range map[string][]string{"send": {"RC", "UC", "UD"}, "write": {"RC", "UC"}, "read": {"RC"}, "atomic": {"RC"}}[test] {
				lines = append(lines, fmt.Sprintf("ib_%s_%s -x 1 -F -n 100 -c %s", test, kind, service))
			}
		}
		lines = append(lines, "ib_"+test+"_bw -x 1 -F -n 100 -q 64", "ib_"+test+"_bw -x 1 -F -n 128 -q 2 --post_list=8")
		if test != "atomic" {
			lines = append(lines, "ib_"+test+"_bw -x 1 -F -n 20 -a", "ib_"+test+"_lat -x 1 -F -n 20 -a")
		}
	}
	return append(lines, "ib_send_bw -x 1 -F -n 100 --use-srq -q 4", "ib_send_bw -x 1 -F -n 100 -e",
		"ib_read_bw -x 1 -F -n 100 -e", "ib_atomic_bw -x 1 -F -n 100 -A CMP_AND_SWAP")
}

// TestMLX5Releases: all of that with libmlx5 of this Debian, of a newer one, and of the newest.
func TestMLX5Releases(t *testing.T) {
	if native != "" || !selection.takes(complete) {
		return
	}
	need(t, "ibv_rc_pingpong", "ib_write_bw")
	a, _ := twoHosts(t, 4500)
	d := startDaemon(t, a, "--device", "mlx5_0=eth0")
	for _, r := range []release{{name: "installed"}, newer(t), newest(t)} {
		o := topology{server: r.beside(d.run), client: r.beside(d.run), host: a, device: "mlx5_0"}
		for _, line := range append(mlx5Pingpongs(), mlx5Perftests()...) {
			t.Run(r.name+"/"+line, func(t *testing.T) {
				o.exchange(t, append(strings.Fields(line), "-d", o.device, "-p", "PORT")...).good(t)
			})
		}
	}
}
