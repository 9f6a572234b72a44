package trap

import (
	"bufio"
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// BenchmarkTrap measures what calls cost the program: see bench in
// programs_test.go. The one that is not trapped is there to compare with.
func BenchmarkTrap(b *testing.B) {
	for _, o := range []struct {
		name    string
		options options
	}{{"session", options{host: newFakes(b)}}} {
		b.Run(o.name, func(b *testing.B) {
			o.options.program = "bench"
			out := run(b, o.options, fmt.Sprint(b.N))
			lines := bufio.NewScanner(bytes.NewBufferString(out))
			for lines.Scan() {
				name, ns, _ := strings.Cut(lines.Text(), "\t")
				v, err := strconv.ParseFloat(ns, 64)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(v, "ns/"+strings.ReplaceAll(name, " ", "-"))
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}
