package interop

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
)

// connectionsMeasured is how many connections cmtime makes at a time.
const connectionsMeasured = 100

// BenchmarkConnections compares the rates at which gorxe and rdma_rxe make connections, each
// within one device, in one boot. cmtime measures: connect is from the first call to the last
// event of all connections, whole is from the first id to the last one destroyed. They
// alternate b.N times, and it reports the medians. It is for a machine that does nothing else
// (-benchtime 7x).
func BenchmarkConnections(b *testing.B) {
	var theirs, ours rates
	for range b.N {
		theirs.add(b, func(script string) string {
			out, err := lab.guest.sh("set -e\n" + script)
			if err != nil {
				b.Fatal(err)
			}
			return out
		}, "", "", lab.guest.addr, `rdma resource show cm_id | grep -q "LISTEN.*:%d\b"`)
		ours.add(b, func(script string) string { return inside(b, script) },
			`$gorxe daemon --device rxe0=127.0.0.1 > daemon.log 2>&1 & daemon=$!
until [ -S $GORXE_SOCKET ]; do kill -0 $daemon || { cat daemon.log; exit 1; }; sleep 0.1; done
trap 'kill $daemon' EXIT
`, "$gorxe run -- ", "127.0.0.1", `$gorxe status --json | grep -q ':%d"'`)
	}
	b.ReportMetric(0, "ns/op")
	for _, m := range []struct {
		name         string
		theirs, ours []float64
	}{{"connect", theirs.connect, ours.connect}, {"whole", theirs.whole, ours.whole}} {
		b.ReportMetric(median(m.theirs), "rdma_rxe-"+m.name+"/s")
		b.ReportMetric(median(m.ours), "gorxe-"+m.name+"/s")
		b.ReportMetric(median(m.ours)/median(m.theirs), m.name+"-times")
	}
}

// rates are connections a second.
type rates struct{ connect, whole []float64 }

// cmtimeStep is a line of cmtime: the name of a step, and how many milliseconds it took for
// all connections.
var cmtimeStep = regexp.MustCompile(`(?m)^([a-z][a-z ]*?) *: +([\d.]+)`)

// add measures once. before is a script that prepares, and run what a command begins with.
// ready is a command that succeeds when something listens at a port.
func (r *rates) add(b *testing.B, sh func(script string) string, before, run, addr, ready string) {
	b.Helper()
	port := lab.nextPort()
	out := sh(before + fmt.Sprintf(`%[1]scmtime -p %[2]d -c %[4]d > server 2>&1 &
until %[5]s; do sleep 0.1; done
%[1]scmtime -p %[2]d -c %[4]d -s %[3]s
kill $! || true`, run, port, addr, connectionsMeasured, fmt.Sprintf(ready, port)))
	whole, connect := 0.0, 0.0
	for _, m := range cmtimeStep.FindAllStringSubmatch(out, -1) {
		ms, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			b.Fatal(err)
		}
		whole += ms
		if m[1] == "connect" {
			connect = ms
		}
	}
	if connect == 0 {
		b.Fatalf("no line of connect in\n%s", out)
	}
	b.Log(out)
	r.connect = append(r.connect, connectionsMeasured*1000/connect)
	r.whole = append(r.whole, connectionsMeasured*1000/whole)
}
