package conformance

import (
	"bytes"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
)

// TestSnapLengths: a clean capture has no findings if its packets are cut, at any
// length. Of some packets only the BTH is left, of others not even that.
func TestSnapLengths(t *testing.T) {
	for _, name := range []string{"allops_rc_gid1.pcap", "allops_rc_gid0_v6.pcap", "allops_err_gid1.pcap", "interop-loss.pcap"} {
		file, err := os.ReadFile(captures + name)
		if err != nil {
			t.Fatal(err)
		}
		for length := 40; length <= 140; length += 2 {
			t.Run(fmt.Sprintf("%s/%d", name, length), func(t *testing.T) {
				r, err := Check(bytes.NewReader(snap(t, file, length)), Options{})
				if err != nil {
					t.Fatal(err)
				}
				for i := range r.Findings {
					t.Error(&r.Findings[i])
				}
			})
		}
	}
}

// snap cuts every packet of a capture, as tcpdump -s does.
func snap(t *testing.T, file []byte, length int) []byte {
	t.Helper()
	var b bytes.Buffer
	w := pcapgo.NewWriterNanos(&b)
	if err := w.WriteFileHeader(uint32(length), layers.LinkTypeEthernet); err != nil {
		t.Fatal(err)
	}
	l := load(t, "capture", file)
	for i := range l.packets {
		p := &l.packets[i]
		n := min(length, len(p.Frame))
		ci := gopacket.CaptureInfo{Timestamp: time.Unix(0, p.Time.UnixNano()), CaptureLength: n, Length: len(p.Frame)}
		if err := w.WritePacket(ci, p.Frame[:n]); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}
