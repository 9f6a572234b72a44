package ladder

import (
	"html"
	"regexp"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/pcap/plot"
)

// sawOn returns the sentences of a page about its packets, as a reader sees them.
func sawOn(t *testing.T, page []byte) (list []string) {
	t.Helper()
	section := regexp.MustCompile(`(?s)id="wire-title".*?</section>`).Find(page)
	for _, item := range regexp.MustCompile(`(?s)<li.*?</li>`).FindAll(section, -1) {
		list = append(list, html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(string(item), "")))
	}
	return list
}

// TestSaw: the page says of each direction what its packets show, with links to the first packet of
// each kind. What it says is what the checker counted.
func TestSaw(t *testing.T) {
	comments := make([]string, 80)
	comments[2], comments[6], comments[16] = "gorxe: lost by fault rule 1 (packet drop)", "gorxe: delayed by fault rule 2 (packet delay)", "gorxe: lost by fault rule 1 (packet drop)"
	for name, c := range map[string]struct {
		file []byte
		want []string // beginnings
	}{
		"loss": {contents(t, "netem_corrupt2.pcap"), []string{
			"10.77.0.1 0x000026 → 10.77.0.2 0x000026 (RC): 45 messages in 420 request packets; the receiver missed a packet 8 times (NAK: PSN sequence error), first after 0.047 s; the sender waited 6 times until its timeout, first after 0.087 s, the longest with 20.1 ms of silence before packet 994; 75 packets were sent again, first after 0.027 s; 298 answers were sent again; half of the messages were acknowledged within 18.9 ms, the slowest, sent after 0.465 s, within 39.4 ms; every message was acknowledged. NAK: packet 69 sent again after a timeout: packet 90 after the longest silence: packet 994 sent again: packet 20 slowest: packet 662 flow 1",
		}},
		"connections": {contents(t, "rping.pcap"), []string{
			"The connection manager: 10.77.0.1 sent REQ after 0.000000 s; 10.77.0.2 sent REP after 0.031212 s; ",
			"10.77.0.1 0x000020 → 10.77.0.2 0x000020 (RC): 10 messages in 10 request packets; nothing was lost, sent again or refused; half of the messages were acknowledged within 1.8 ms, the slowest, sent after 0.153 s, within 3.8 ms; every message was",
			"10.77.0.2 0x000020 → 10.77.0.1 0x000020 (RC): 20 messages in 20 request packets; nothing was lost",
		}},
		"refusals": {contents(t, "allops_err_gid1.pcap"), []string{
			"10.77.0.1 0x000011 → 10.77.0.2 0x000011 (RC): 1 message in 120 request packets; the receiver answered 119 times that it had no receive (RNR NAK), first after 0.918 s; the sender waited once until its timeout, first after 0.975 s, with 28.4 ms of silence before; 119 packets were sent again, first after 0.930 s; ",
			"10.77.0.1 0x000012 → 10.77.0.2 0x000012 (RC): 1 message in 3 request packets; the receiver answered 3 times that it had no receive (RNR NAK), first after 2.015 s; 2 packets were sent again, first after 2.023 s; 1 message was never acknowledged. RNR NAK: packet 244 ",
			"10.77.0.1 0x000013 → 10.77.0.2 0x000013 (RC): 1 message in 1 request packet; the receiver refused once (NAK: remote access error), first after 2.055 s; 1 message was never acknowledged. NAK: packet 250 flow 3",
			"", "", "", "", "", "In 2 more directions, too, packets were lost, sent again or refused",
		}},
		"congestion": {contents(t, "gorxe-congestion.pcap"), []string{
			"10.88.0.2 0x1dc31a → 10.88.0.1 0x4beae0 (RC): 20 messages in 20 request packets; 5 packets came marked for congestion (CE); the receiver asked 4 times to slow down (CNP), first after 0.001 s; ",
		}},
		"quiet": {contents(t, "interop-loss.pcap"), []string{"On 7 connections nothing was lost, sent again or refused: 52 messages in 128 request packets."}},
		"rules": {noted(t, "netem_corrupt2.pcap", comments...), []string{
			"10.77.0.1 0x000026 → 10.77.0.2 0x000026 (RC): ",
		}},
	} {
		said := sawOn(t, htmlPage(t, c.file, "x", &Collector{Plot: new(plot.Collector)}))
		if len(said) != len(c.want) {
			t.Errorf("%s: %d sentences, want %d:\n%s", name, len(said), len(c.want), strings.Join(said, "\n"))
			continue
		}
		for i, want := range c.want {
			if !strings.HasPrefix(said[i], want) {
				t.Errorf("%s: the page says\n%s\nand not\n%s", name, said[i], want)
			}
		}
		if all := strings.Join(said, "\n"); name == "rules" && (!strings.Contains(all, "fault rules lost 1 packet on the way, first after ") || !strings.Contains(all, "fault rules delayed 1 packet, first after ") ||
			!strings.Contains(all, "fault rules lost 1 answer, first after ") || !strings.Contains(all, "lost: packet 3 ")) {
			t.Errorf("what rules did is said as\n%s", all)
		}
	}
}
