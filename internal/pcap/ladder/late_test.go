package ladder

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/pcap/plot"
	"github.com/gorxe/gorxe/rocev2/conformance"
)

// TestSpread: a page with few packets has notable ones of the whole run, and those that the
// sentences lead to.
func TestSpread(t *testing.T) {
	file := contents(t, "netem_corrupt2.pcap") // 1,161 packets
	c := Collector{Plot: new(plot.Collector), MaxRows: 300}
	page := string(htmlPage(t, file, "x", &c))
	quarters, rows := [4]int{}, 0
	for _, v := range c.Conversations() {
		for _, r := range v.Rows {
			rows++
			if r.Notable() {
				quarters[min(r.Number*4/1162, 3)]++
			}
		}
	}
	for i, n := range quarters {
		if n < 5 {
			t.Errorf("quarter %d of the run has %d notable packets on the page: %v", i+1, n, quarters)
		}
	}
	if rows > 300 || rows < 200 {
		t.Errorf("%d rows", rows)
	}
	for _, link := range []string{"slowest: packet 662", "after the longest silence: packet 994", "sent again after a timeout: packet 90", "NAK: packet 69", "sent again: packet 20"} {
		if !strings.Contains(page, ">"+link+"<") {
			t.Errorf("no link %q", link)
		}
	}
	if c.every < 2 || !strings.Contains(page, "of the packets that are notable, over the whole run.") {
		t.Errorf("the page does not say that it has one in %d", c.every)
	}
}

// TestToItself: the messages of a connection manager to its own host go to the left if they answer.
func TestToItself(t *testing.T) {
	var c Collector
	collected(t, contents(t, "rping.pcap"), &c)
	v := c.Conversations()[0]
	self := &Conversation{Left: v.Right, Right: v.Right, flows: []*conformance.Flow{v.flows[0]}}
	got, want := "", ""
	for _, r := range v.Rows {
		k := r.clone()
		k.Flow = v.flows[0]
		self.Rows = append(self.Rows, k)
	}
	self.answersToItself()
	for i, r := range v.Rows {
		want += map[bool]string{true: ">", false: "<"}[v.ToRight(r)]
		got += map[bool]string{true: ">", false: "<"}[self.ToRight(self.Rows[i])]
	}
	if got != want || !strings.Contains(want, "<") {
		t.Errorf("the messages go %s, want %s", got, want)
	}
}

// slowed returns a capture that took so many times as long.
func slowed(file []byte, times uint64) []byte {
	out := slices.Clone(file)
	first := uint64(0)
	for at := 24; at < len(out); at += 16 + int(binary.LittleEndian.Uint32(out[at+8:])) {
		t := uint64(binary.LittleEndian.Uint32(out[at:]))*1e6 + uint64(binary.LittleEndian.Uint32(out[at+4:]))
		if first == 0 {
			first = t
		}
		t = first + (t-first)*times
		binary.LittleEndian.PutUint32(out[at:], uint32(t/1e6))
		binary.LittleEndian.PutUint32(out[at+4:], uint32(t%1e6))
	}
	return out
}

// TestStall: the head of the page names a silence of seconds, and no shorter one.
func TestStall(t *testing.T) {
	file := contents(t, "netem_corrupt2.pcap")
	for times, want := range map[uint64]bool{1: false, 100: true} {
		page := htmlPage(t, slowed(file, times), "x", &Collector{Plot: new(plot.Collector)})
		if said := bytes.Contains(page, []byte(`id="badge-Waits"><b>Waits:</b> up to 2.01 s of silence on a connection, until the sender&#39;s timeout<`)); said != want {
			_, _, badges := head(t, page)
			t.Errorf("%d times as slow: it is said: %v; %q", times, said, badges)
		}
	}
}
