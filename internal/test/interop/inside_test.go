package interop

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// These tests run gorxe inside the guest. Its kernel has Yama, which the host may lack, and
// an rdma_rxe for comparison. gorxe runs in a network namespace there, because rdma_rxe
// uses UDP port 4791 of the guest.

// inside runs a script in that namespace. $gorxe is the binary. $dir is a directory that
// every user may write to, and the working directory.
func inside(t testing.TB, script string) string {
	t.Helper()
	out, err := lab.guest.sh(fmt.Sprintf(`set -e
gorxe=%s
if ! ip netns list | grep -q '^gorxe\b'; then
	ip netns add gorxe
	ip netns exec gorxe ip link set lo mtu 65536 up
	install -m 755 "$gorxe" /usr/local/bin/gorxe
fi
dir=$(mktemp -d) && chmod 777 "$dir" && cd "$dir"
export gorxe=/usr/local/bin/gorxe dir GORXE_SOCKET="$dir/gorxe.sock"
ip netns exec gorxe sh -e <<'END'
listens() { for i in $(seq 200); do ss -Hltn "sport = :$1" | grep -q . && return; sleep 0.1; done; return 1; }
# The daemon of the script before may still be on its way out.
for i in $(seq 200); do ss -Hlun 'sport = :4791' | grep -q . || break; sleep 0.1; done
%s
END`, filepath.Join(lab.scratch, "gorxe"), script))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// yama sets kernel.yama.ptrace_scope for one test.
func yama(t *testing.T, scope int) {
	t.Helper()
	const file = "/proc/sys/kernel/yama/ptrace_scope"
	set := func(v string) {
		if _, err := lab.guest.sh(fmt.Sprintf("echo %s > %s", v, file)); err != nil {
			t.Fatal(err)
		}
	}
	before, err := lab.guest.sh("cat " + file)
	if err != nil {
		t.Fatalf("the guest's kernel has no Yama: %v", err)
	}
	set(strconv.Itoa(scope))
	t.Cleanup(func() { set(strings.TrimSpace(before)) })
}

// asUser begins a command of an ordinary user.
const asUser = "setpriv --reuid 1000 --regid 1000 --clear-groups env HOME=$dir "

// Under ptrace_scope 1 only an ancestor may access a program's memory. An earlier daemon is
// not an ancestor, and neither is the daemon of another gorxe run.
func TestYamaDescendants(t *testing.T) {
	yama(t, 1)
	pair := func(run string) string {
		return run + ` ibv_rc_pingpong -d rxe0 -g 1 -c -n 50 -p 18400 > server 2>&1 &
listens 18400
` + run + ` ibv_rc_pingpong -d rxe0 -g 1 -c -n 50 -p 18400 127.0.0.1
wait $! || { cat server; exit 1; }
`
	}
	run := asUser + "$gorxe run --device rxe0=127.0.0.1"
	t.Run("private daemon", func(t *testing.T) { inside(t, pair(run)) })
	t.Run("children of the program", func(t *testing.T) {
		inside(t, pair(run+` sh -c '"$@"; exit $?' sh`))
	})
	t.Run("daemon of the same user", func(t *testing.T) {
		inside(t, asUser+`$gorxe daemon --device rxe0=127.0.0.1 > daemon.log 2>&1 &
daemon=$!
until [ -S $GORXE_SOCKET ]; do kill -0 $daemon || { cat daemon.log; exit 1; }; sleep 0.1; done
`+pair(run)+`kill $daemon; wait $daemon`)
	})
}

// Under ptrace_scope 2 only root may. gorxe run starts nothing, and its error names the
// setting and the values that work.
func TestYamaNobody(t *testing.T) {
	yama(t, 2)
	out := inside(t, asUser+"$gorxe run --device rxe0=127.0.0.1 echo hello 2>&1 || echo exit status $?")
	for _, want := range []string{"kernel.yama.ptrace_scope is 2: set it to 0 or 1, or give gorxe CAP_SYS_PTRACE", "exit status 125"} {
		if !strings.Contains(out, want) {
			t.Errorf("not said: %s\n%s", want, out)
		}
	}
	inside(t, "$gorxe run --device rxe0=127.0.0.1 ibv_devinfo -d rxe0")
}

// BenchmarkInside compares gorxe with rdma_rxe, each within one device, in one boot. They
// alternate b.N times, and it reports the medians. It is for a machine that does nothing
// else (-benchtime 7x).
func BenchmarkInside(b *testing.B) {
	for _, mtu := range []int{1024, 4096} {
		for _, tool := range []string{"ib_write_bw", "ib_send_bw", "ib_read_bw"} {
			b.Run(fmt.Sprintf("%s/mtu=%d", tool, mtu), func(b *testing.B) {
				argv := fmt.Sprintf("%s -d rxe0 -F -s %d -n 1000 -m %d -x ", tool, insideSize, mtu)
				var theirs, ours []float64
				for range b.N {
					theirs = append(theirs, average(b, func(script string) string {
						out, err := lab.guest.sh("set -e\n" + script)
						if err != nil {
							b.Fatal(err)
						}
						return out
					}, argv+strconv.Itoa(lab.guest.gid[ipv4]), lab.guest.addr))
					ours = append(ours, average(b, func(script string) string { return inside(b, script) },
						"$gorxe run --device rxe0=127.0.0.1 -- "+argv+"1", "127.0.0.1"))
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(median(theirs), "rdma_rxe-MB/s")
				b.ReportMetric(median(ours), "gorxe-MB/s")
				b.ReportMetric(median(ours)/median(theirs), "times")
			})
		}
	}
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

const insideSize = 65536

// insideTable is perftest's line for that size; the average in MB/s is matched.
var insideTable = regexp.MustCompile(fmt.Sprintf(`(?m)^\s*%d\s+\d+\s+[\d.]+\s+([\d.]+)\s+[\d.]+\s*$`, insideSize))

// average runs a perftest pair and returns what the client measured.
func average(b *testing.B, sh func(script string) string, argv, addr string) float64 {
	b.Helper()
	out := sh(fmt.Sprintf(`%[1]s -p %[3]d > /tmp/server 2>&1 &
until ss -Hltn "sport = :%[3]d" | grep -q .; do sleep 0.1; done
%[1]s -p %[3]d %[2]s
wait $!`, argv, addr, lab.nextPort()))
	m := insideTable.FindStringSubmatch(out)
	if m == nil {
		b.Fatalf("no table in\n%s", out)
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		b.Fatal(err)
	}
	return v
}
