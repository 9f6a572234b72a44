package report

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/gorxe/gorxe/rocev2/conformance"
)

// JSONCapture is a capture as JSON.
type JSONCapture struct {
	File       string          `json:"file"`
	Error      string          `json:"error,omitempty"`
	Cut        bool            `json:"cut,omitempty"`
	CutAt      int64           `json:"cut_at,omitempty"`
	Drops      uint64          `json:"drops,omitempty"`
	ClockSteps int             `json:"clock_steps,omitempty"`
	Packets    uint64          `json:"packets"`
	RoCEv2     uint64          `json:"rocev2"`
	RoCEv1     uint64          `json:"rocev1"`
	InfiniBand uint64          `json:"infiniband"`
	Other      uint64          `json:"other"`
	Truncated  uint64          `json:"truncated"`
	Happened   string          `json:"happened,omitempty"`
	Violations uint64          `json:"violations"`
	Warnings   uint64          `json:"warnings"`
	Notes      uint64          `json:"notes"`
	Rules      []JSONRuleCount `json:"rules"`
	Flows      []JSONFlow      `json:"flows"`
	Findings   []JSONFinding   `json:"findings"`
}

// JSONRuleCount is how often a rule had a finding.
type JSONRuleCount struct {
	Name        string `json:"name"`
	Violations  uint64 `json:"violations"`
	Warnings    uint64 `json:"warnings"`
	Notes       uint64 `json:"notes"`
	FirstPacket int    `json:"first_packet"`
}

// JSONFlow is a flow and its statistics.
//
// Fields: the keys of a flow in the JSON that gorxe prints.
type JSONFlow struct {
	ID              int     `json:"id"`
	Kind            string  `json:"kind"`
	Service         string  `json:"service"`
	Source          string  `json:"source"`
	SourceQP        string  `json:"source_qp,omitempty"`
	Destination     string  `json:"destination"`
	DestinationQP   string  `json:"destination_qp"`
	Peer            int     `json:"peer,omitempty"`
	PathMTU         int     `json:"path_mtu,omitempty"`
	PKey            string  `json:"p_key"`
	QKey            string  `json:"q_key,omitempty"`
	FirstPacket     int     `json:"first_packet"`
	Packets         uint64  `json:"packets"`
	Requests        uint64  `json:"requests"`
	Responses       uint64  `json:"responses"`
	Messages        uint64  `json:"messages"`
	Bytes           uint64  `json:"bytes"`
	Retransmissions uint64  `json:"retransmissions"`
	Timeouts        uint64  `json:"timeouts"`
	GaveUp          uint64  `json:"gave_up"`
	Duplicates      uint64  `json:"duplicates"`
	Late            uint64  `json:"late"`
	Gaps            uint64  `json:"gaps"`
	Missing         uint64  `json:"missing"`
	ACKs            uint64  `json:"acks"`
	NAKs            uint64  `json:"naks"`
	RNRs            uint64  `json:"rnrs"`
	Rejects         uint64  `json:"rejects"`
	CNPs            uint64  `json:"cnps"`
	CNPGap          float64 `json:"shortest_cnp_gap_seconds,omitempty"`
	Marked          uint64  `json:"ce_marked"`
	MaxReads        int     `json:"max_outstanding_reads"`
	Violations      uint64  `json:"violations"`
	Warnings        uint64  `json:"warnings"`
	Notes           uint64  `json:"notes"`
}

// JSONFinding is a finding; Flow is the ID of its flow.
type JSONFinding struct {
	Packet   int       `json:"packet"`
	Time     time.Time `json:"time"`
	Flow     int       `json:"flow,omitempty"`
	Rule     string    `json:"rule"`
	Severity string    `json:"severity"`
	Clause   string    `json:"clause"`
	Expected string    `json:"expected"`
	Seen     string    `json:"seen"`
}

func flowOf(f *conformance.Flow) JSONFlow {
	s := &f.Stats
	i := JSONFlow{
		ID: f.ID, Kind: f.Kind.String(), Service: f.Service.String(),
		Source: f.Src.String(), Destination: f.Dst.String(), DestinationQP: fmt.Sprintf("0x%06x", uint32(f.QPN)),
		PathMTU: s.PathMTU, PKey: fmt.Sprintf("%#04x", uint16(s.PKey)), FirstPacket: s.FirstPacket,
		Packets: s.Packets, Requests: s.Requests, Responses: s.Responses, Messages: s.Messages, Bytes: s.Bytes,
		Retransmissions: s.Retransmissions, Timeouts: s.Timeouts, GaveUp: s.GaveUp, Rejects: s.Rejects, Duplicates: s.Duplicates, Late: s.Late, Gaps: s.Gaps, Missing: s.Missing,
		ACKs: s.ACKs, NAKs: s.NAKs, RNRs: s.RNRs, CNPs: s.CNPs, CNPGap: s.CNPGap.Seconds(), Marked: s.Marked, MaxReads: s.MaxReads,
		Violations: s.Violations, Warnings: s.Warnings, Notes: s.Notes,
	}
	if f.Peer != nil {
		i.Peer, i.SourceQP = f.Peer.ID, fmt.Sprintf("0x%06x", uint32(f.Peer.QPN))
	}
	if f.SourceQPN != 0 {
		i.SourceQP, i.QKey = fmt.Sprintf("0x%06x", uint32(f.SourceQPN)), fmt.Sprintf("%#x", s.QKey)
	}
	return i
}

// JSON converts captures to what WriteJSON prints of them.
func JSON(captures []*Capture) []JSONCapture {
	all := make([]JSONCapture, 0, len(captures))
	for _, c := range captures {
		all = append(all, c.json())
	}
	return all
}

func (c *Capture) json() JSONCapture {
	j := JSONCapture{
		File: c.File, Cut: c.Cut, CutAt: c.CutAt, Drops: c.Drops, ClockSteps: c.ClockSteps, Packets: c.Packets, RoCEv2: c.RoCEv2, RoCEv1: c.RoCEv1,
		InfiniBand: c.InfiniBand, Other: c.Other, Truncated: c.Truncated, Happened: c.Happened(),
		Violations: c.Violations, Warnings: c.Warnings, Notes: c.Notes,
		Rules: []JSONRuleCount{}, Flows: []JSONFlow{}, Findings: []JSONFinding{},
	}
	if c.Err != nil {
		j.Error = c.Err.Error()
	}
	for _, rule := range conformance.Rules() {
		if n := c.Of(rule.Name); n.Total() > 0 {
			j.Rules = append(j.Rules, JSONRuleCount{rule.Name, n.Violations, n.Warnings, n.Notes, n.FirstPacket})
		}
	}
	for _, f := range c.Flows {
		j.Flows = append(j.Flows, flowOf(f))
	}
	for i := range c.Findings {
		j.Findings = append(j.Findings, findingOf(&c.Findings[i]))
	}
	return j
}

func findingOf(x *conformance.Finding) JSONFinding {
	f := JSONFinding{
		Packet: x.Packet, Time: x.Time.UTC(), Rule: x.Rule.Name, Severity: x.Severity.String(), Clause: x.Rule.Clause,
		Expected: x.Expected, Seen: x.Seen,
	}
	if x.Flow != nil {
		f.Flow = x.Flow.ID
	}
	return f
}

// WriteJSON writes v as indented JSON.
func WriteJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
