package interop

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/test/bench"
)

// BenchmarkPeer runs perftest between gorxe and rdma_rxe, in both roles, b.N times, and reports the
// medians. It is for two builds of gorxe that alternate, on a machine that does nothing else
// (-benchtime 5x). A figure by itself means nothing, because the machine is emulated.
func BenchmarkPeer(b *testing.B) {
	for _, tool := range []string{
		"ib_write_lat -n 2000 -s 2", "ib_send_lat -n 2000 -s 2",
		"ib_send_bw -n 5000 -s 8", "ib_write_bw -n 300 -s 65536", "ib_send_bw -n 300 -s 65536",
	} {
		for _, role := range []struct {
			name           string
			server, client *machine
		}{{"client", lab.guest, lab.gorxe}, {"server", lab.gorxe, lab.guest}} {
			b.Run(tool+"/gorxe is the "+role.name, func(b *testing.B) {
				var figures []float64
				for range b.N {
					figures = append(figures, peerFigure(b, role.server, role.client, strings.Fields(tool)))
				}
				unit := "messages/s"
				if strings.Contains(tool, "_lat") {
					unit = "µs"
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(median(figures), unit)
			})
		}
	}
}

// peerFigure returns the typical latency in µs, or the rate in messages a second.
func peerFigure(b *testing.B, server, client *machine, argv []string) float64 {
	b.Helper()
	port := lab.nextPort()
	args := func(m *machine) []string {
		return append(slices.Clone(argv), "-d", "rxe0", "-F", "-u", "18", "-x", strconv.Itoa(m.gid[ipv4]), "-p", strconv.Itoa(port))
	}
	s := server.verbs(args(server)...)
	defer s.Kill()
	if err := server.Listening(port); err != nil {
		b.Fatal(err)
	}
	c := client.verbs(append(args(client), server.addr)...)
	if code, err := c.Wait(2 * time.Minute); code != 0 || err != nil {
		b.Fatalf("%v: exit status %d, %v\n%s", argv, code, err, c.Output())
	}
	if code, err := s.Wait(time.Minute); code != 0 || err != nil {
		b.Fatalf("%v, the server: exit status %d, %v\n%s", argv, code, err, s.Output())
	}
	o, err := bench.Parse(c.Output())
	if err != nil {
		b.Fatalf("%v\n%s", err, c.Output())
	}
	return cmp.Or(o.Typical, o.Rate) // a program has one of them
}
