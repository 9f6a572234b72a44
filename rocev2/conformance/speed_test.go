package conformance

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/gorxe/gorxe/internal/test/testenv"
)

// BenchmarkBesideTshark makes a file of GORXE_PACKETS packets (a million) of a thousand
// flows. `gorxe pcap check` and `tshark -r` read it, each on one processor. It reports
// their CPU time, and the most memory that they used.
func BenchmarkBesideTshark(b *testing.B) {
	packets := 1_000_000
	if n, err := strconv.Atoi(os.Getenv("GORXE_PACKETS")); err == nil {
		packets = n
	}
	dir := b.TempDir()
	gorxe := filepath.Join(dir, "gorxe")
	if out, err := exec.Command("go", "build", "-o", gorxe, "../../cmd/gorxe").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	file := filepath.Join(dir, "traffic.pcap")
	const payload = 1024
	writeTraffic(b, file, packets, payload)
	size, err := os.Stat(file)
	if err != nil {
		b.Fatal(err)
	}
	for name, argv := range map[string][]string{
		"gorxe pcap check": {gorxe, "pcap", "check", "-q", file},
		"tshark -r":        {"tshark", "-r", file},
	} {
		b.Run(name, func(b *testing.B) {
			if _, err := exec.LookPath(argv[0]); err != nil {
				testenv.Missing(b, "install the Debian package tshark: %v", err)
			}
			for range b.N {
				cmd := exec.Command(argv[0], argv[1:]...)
				cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
				if err := cmd.Run(); err != nil {
					b.Fatal(err)
				}
				used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
				b.ReportMetric(float64(packets)/used.Seconds()/1e6, "Mpackets/cpu-s")
				b.ReportMetric(float64(size.Size())/used.Seconds()/1e9, "GB/cpu-s")
				b.ReportMetric(float64(cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss)/1024, "MiB")
			}
		})
	}
}

func writeTraffic(b *testing.B, name string, packets, payload int) {
	b.Helper()
	f, err := os.Create(name)
	if err != nil {
		b.Fatal(err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	if _, err := io.Copy(w, newTraffic(packets, payload, 500)); err != nil {
		b.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
}
