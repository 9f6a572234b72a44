package ladder

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestStory: the page of a run begins with its sentences, each with links to its packets and its
// queue pair. The names in it change nothing of the page.
func TestStory(t *testing.T) {
	const hostile = "</li><script>alert(1)</script>\x1b[31m\u202e"
	story := &Story{
		Title: "the program `" + hostile + "` failed", Command: printable(hostile),
		Sides:  []Sentence{{Text: "**The program** `" + hostile + "`: a \\* b &lt;c", Bad: true, Work: &Work{QPN: 0x12, PeerQPN: 0x11, PSN: 0x191}}},
		Events: []Sentence{{Text: "it ended"}, {Text: "it refused", Bad: true, Work: &Work{QPN: 0x11, PeerQPN: 0x12, PSN: 0x191, FromPeer: true}}},
		QPs:    []QPAtEnd{{Process: printable(hostile), Device: "rxe0", QPN: 0x12, PeerQPN: 0x11, State: "ERR"}, {QPN: 0x11, Device: "rxe1"}},
	}
	file := contents(t, "allops_err_gid1.pcap")
	// The packets that the sentences are about, whichever they are in this capture.
	var refused *Row
	find := Collector{}
	collected(t, file, &find)
	for _, v := range find.Conversations() {
		for _, r := range v.Rows {
			if r.Negative() && r.pkt.Syndrome().IsNAK() && refused == nil && v.Left.Known && v.Right.Known {
				refused = r
				from, to := v.Left.QPN, v.Right.QPN
				if v.ToRight(r) {
					from, to = to, from
				}
				for _, w := range []*Work{story.Sides[0].Work, story.Events[1].Work} {
					w.PSN, w.QPN, w.PeerQPN = r.pkt.PSN(), from, to
					if w.FromPeer {
						w.QPN, w.PeerQPN = to, from
					}
				}
				story.QPs[0].QPN, story.QPs[1].QPN = from, to
			}
		}
	}
	if refused == nil {
		t.Fatal("the capture has no NAK")
	}
	c := Collector{Story: story, MaxRows: 16}
	page := htmlPage(t, file, "x", &c)
	elements, err := parsePage(page)
	if err != nil {
		t.Fatal(err)
	}
	if i := bytes.IndexAny(page, "\x1b\u202e"); i >= 0 || bytes.Contains(page, []byte("<script>alert")) {
		t.Errorf("a name changes the page")
	}
	ids := make(map[string]bool)
	var links []string
	wrong := 0
	for i := range elements {
		e := &elements[i]
		ids[e.attrs["id"]] = true
		if to := e.attrs["href"]; to != "" {
			links = append(links, to)
		}
		if e.name == "li" && e.is("wrong") {
			wrong++
		}
	}
	for _, to := range links {
		if !ids[to[1:]] {
			t.Errorf("%s leads nowhere", to)
		}
	}
	if wrong != 2 {
		t.Errorf("%d sentences are red, want 2", wrong)
	}
	// Of 250 packets the page has 16, and these are among them.
	for _, pattern := range []string{`its packet \d+</a> <a href="#packet-\d+">refused by packet \d+</a> <a href="#flow-\d+">flow \d+</a> <a href="#qp-[0-9a-f]{6}-0">`,
		`<b>The program</b> <code>&lt;/li&gt;`, `: a \* b &lt;c`, `id="verdict">the program <code>`} {
		if !regexp.MustCompile(pattern).Match(page) {
			t.Errorf("the page lacks %s", pattern)
		}
	}
	if !slices.Contains(links, "#packet-"+strings.TrimSpace(count(uint64(refused.Number), "packet").Value)) {
		t.Errorf("no link leads to packet %d, the NAK: %q", refused.Number, links)
	}
}

// TestMessages: the packets of a message are one row, which says how large it is, and how long it
// took until its acknowledgement.
func TestMessages(t *testing.T) {
	for file, want := range map[string][]string{
		"interop-transfers.pcap": {"RC RDMA_WRITE psn 0x00000e–0x00000f  257 B, 2 packets, 8.2 ms until its ACK", "RC RDMA_READ_RESPONSE psn 0x000016–0x000017  257 B, 2 packets"},
		"netem_corrupt2.pcap": {
			"RC RDMA_WRITE psn 0xfffff0–0xffffff  16 KiB, 16 packets, 3.4 ms until its ACK",
			"RC RDMA_READ_RESPONSE psn 0x000021–0x000030  16 KiB, 16 packets, sent again",
			"RC RDMA_WRITE psn 0x000011–0x000017  7 KiB, 7 packets, not from FIRST to LAST",
		},
	} {
		var c Collector
		collected(t, contents(t, file), &c)
		seen, texts := make(map[int]bool), make(map[string]bool)
		for _, v := range c.Conversations() {
			for _, item := range c.items(v) {
				if item.Folded != (len(item.Lines) > 1) {
					t.Errorf("%d packets, folded: %v", len(item.Lines), item.Folded)
				}
				texts[item.Text] = true
				for i := range item.Lines {
					if n := item.Lines[i].Number; seen[n] {
						t.Errorf("packet %d is shown twice", n)
					} else {
						seen[n] = true
					}
				}
			}
		}
		if left, _ := c.LeftOut(); uint64(len(seen)) != c.Chosen()-left {
			t.Errorf("%s: %d packets are shown of %d", file, len(seen), c.Chosen()-left)
		}
		for _, text := range want {
			if !texts[text] {
				t.Errorf("%s: no message is %q", file, text)
			}
		}
	}
}

// TestMessageLost: a message says how many of its packets a rule lost, and which rule.
func TestMessageLost(t *testing.T) {
	comments := make([]string, 40)
	comments[30] = "gorxe: lost by fault rule 1 (packet drop,nth=3)"
	var c Collector
	s := collected(t, noted(t, "netem_corrupt2.pcap", comments...), &c)
	var page bytes.Buffer
	if err := c.WriteHTML(&page, "x", s, nil); err != nil {
		t.Fatal(err)
	}
	folds := regexp.MustCompile(`<details class="fold ([^"]*)">.*?<span class="words">([^<]*)<`).FindAllStringSubmatch(page.String(), -1)
	found := false
	for _, m := range folds {
		found = found || strings.Contains(m[1], "lost") && strings.Contains(m[2], "1 packet lost [lost by fault rule 1 (packet drop,nth=3)]")
	}
	if !found {
		t.Errorf("no message lost a packet: %q", folds)
	}
}
