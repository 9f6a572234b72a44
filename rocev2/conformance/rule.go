package conformance

import (
	"fmt"
	"slices"
	"strings"
)

// Rule is one rule of the protocol.
type Rule struct {
	Name     string   // stable, kebab-case
	Text     string   // one line: what is required
	Severity Severity // the highest of its findings
	// Clause is a section of the InfiniBand Architecture Specification, volume 1, or
	// an RFC. Where the section is long, it names the subject too.
	Clause string
	// Implies names rules that a packet which breaks this one may break too.
	Implies []string

	index int
}

// The rules. docs/pcap.md says what can excuse a packet that breaks one.
var (
	// One packet.
	ruleICRC        = rule("icrc", Violation, "7.8.1, A17.3.3", "The invariant CRC matches the packet and its addresses.")
	ruleLength      = rule("length", Violation, "9.2, A17.3.1, A17.3.2.3", "IP and UDP lengths agree; the packet is whole words and has all headers of its opcode.")
	rulePad         = rule("pad", Violation, "9.2, pad count", "The pad count is at most the payload, and 0 in FIRST and MIDDLE packets.")
	ruleTVer        = rule("transport-version", Violation, "9.2, transport header version", "The transport header version is 0.")
	ruleOpcode      = rule("opcode", Violation, "9.2, operation code", "The opcode is defined, for a service that RoCE has.")
	rulePayload     = rule("payload", Violation, "9.2, operation code; 9.7.3", "A packet has payload if its opcode requires it, and none if its opcode has none.")
	ruleReserved    = rule("reserved-bits", Warning, "9.2, 9.3", "Reserved bits are sent as 0.")
	ruleSolicited   = rule("solicited-event", Warning, "9.2, solicited event", "The solicited event bit is set only in the last packet of a SEND or a WRITE with immediate.")
	rulePKey        = rule("p-key", Violation, "10.9, partitioning", "The partition number is not 0, and a connection keeps its P_Key.")
	ruleQKey        = rule("q-key", Violation, "10.2, queue keys", "Packets to QP1 carry Q_Key 0x80010000.")
	ruleManagement  = rule("management-qp", Violation, "A17.6, CA17-33", "No packet goes to QP0 (in RoCE), and only datagrams go to QP1.")
	ruleMulticast   = rule("multicast-qp", Violation, "10.5, multicast", "Datagrams to QP 0xffffff, and no others, go to a multicast address.")
	ruleRETHLength  = rule("reth-length", Violation, "9.3, RDMA extended transport header", "A request has at most 2^31 bytes. The length in a WRITE FIRST exceeds its payload, and the length in an ONLY equals it.")
	ruleSyndrome    = rule("syndrome", Violation, "9.3, ACK extended transport header", "Syndrome and NAK code are defined; only ACKNOWLEDGE carries a NAK.")
	ruleAlignment   = rule("atomic-alignment", Warning, "9.4, atomic operations", "The address of an atomic is a multiple of 8.")
	ruleUDLength    = rule("ud-length", Violation, "9.8, unreliable datagrams", "A datagram has at most 4096 bytes of payload.")
	ruleCNPFormat   = rule("cnp-format", Violation, "A17.9.3, CA17-44", "A CNP has PSN, SE, M and its 16 reserved bytes 0, BECN set, and the P_Key of the packet that it answers.")
	ruleIPHeader    = rule("ip-header", Violation, "A17.3.1, CA17-3, CA17-7, CA17-8", "IPv4 has don't-fragment set; there are no options and no fragments.")
	ruleIPChecksum  = rule("ip-checksum", Violation, "RFC 791", "The IPv4 header checksum is right.")
	ruleUDPChecksum = rule("udp-checksum", Violation, "A17.3.2.4, RFC 768", "The UDP checksum is right, or 0.")
	ruleSourcePort  = rule("source-port", Note, "A17.3.2.1, A17.9.4", "The UDP source port of a queue pair does not change, so that the network keeps the order.")

	// Requests of one queue pair.
	ruleSequence  = rule("opcode-sequence", Violation, "9.7.3, requester: generating request packets", "FIRST, MIDDLE… and LAST of one operation follow each other in PSN order. A message begins only after another has ended.", "write-length", "msn", "read-response-opcode")
	rulePathMTU   = rule("path-mtu", Violation, "9.7.3, requester: generating request packets", "FIRST and MIDDLE packets carry exactly the path MTU, which is constant. No packet carries more.", "write-length", "read-response-length")
	ruleWriteLen  = rule("write-length", Violation, "9.7.3, requester: generating request packets", "The packets of a WRITE carry as many bytes as its RETH says.")
	rulePSN       = rule("psn-sequence", Violation, "9.7.1, packet sequence numbers", "Each request takes the next PSN. A READ takes as many as its response has packets.", "opcode-sequence")
	rulePSNGap    = rule("psn-gap", Note, "9.7.1, packet sequence numbers", "Every PSN is in the capture. (The network or the capture lost those that are not.)")
	ruleRetrans   = rule("retransmission", Violation, "9.7.6, requester: receiving responses", "A packet that is sent again under its PSN is the same as before.", "opcode-sequence", "write-length", "read-response-opcode", "read-response-length")
	ruleGoBack    = rule("go-back-n", Warning, "9.7.6, requester: receiving responses", "After a sequence NAK the requester goes back to the PSN of the NAK. After a timeout it goes back to the first PSN that is not acknowledged.")
	ruleRNRWait   = rule("rnr-wait", Violation, "9.7.5.2.8", "After an RNR NAK the requester waits as long as the NAK says.")
	ruleReadDepth = rule("read-depth", Violation, "9.7.4, responder: receiving requests; 12.7", "No more READs and atomics are outstanding than the connection managers agreed on, and never more than 255.")
	ruleAckReq    = rule("ack-missing", Warning, "9.7.5, acknowledgements", "A request that asks for an acknowledgement gets one.")
	ruleRestart   = rule("qp-restarted", Note, "10.3.1, queue pair states", "The queue pair continues with unrelated PSNs: it was reset, or its number was used again.")
	ruleXRCSRQ    = rule("xrc-srq", Violation, "A14, XRC extended transport header", "All packets of an XRC message name the same SRQ, also when they are sent again.")
	ruleXRCHalf   = rule("xrc-half", Warning, "A14, XRC initiators and targets", "An XRC queue pair gets requests, or responses, and not both.")
	ruleService   = rule("service", Warning, "9.2, operation code", "A queue pair gets packets of one transport service only.")

	// Responses to one queue pair.
	ruleAckUnsent    = rule("ack-unsent", Violation, "9.7.5, responder: generating responses", "A response has the PSN of a request that was sent.")
	ruleResponseKind = rule("response-kind", Violation, "9.7.5, responder: generating responses", "READs get READ responses, atomics get ATOMIC ACKNOWLEDGE, all others get ACKNOWLEDGE.")
	ruleMSN          = rule("msn", Violation, "9.7.7, message sequence number", "The MSN counts the requests that have been completed.")
	ruleReadRange    = rule("read-response-range", Violation, "9.7.5, responder: generating responses", "The PSN of a READ response is in the range of its request.")
	ruleReadOpcode   = rule("read-response-opcode", Violation, "9.7.5, responder: generating responses", "READ responses are FIRST, MIDDLE… and LAST, or ONLY, by their place in the range.")
	ruleReadLen      = rule("read-response-length", Violation, "9.7.5, responder: generating responses", "READ responses carry as many bytes as the request asked for.")
	ruleAtomicReplay = rule("atomic-replay", Violation, "9.4, atomic operations", "If an atomic is acknowledged again, it is with the same value.")
	ruleNAKRepeated  = rule("nak-repeated", Violation, "9.7.4, responder: receiving requests", "A gap gets one sequence NAK, until it is filled.")
	ruleNAKCode      = rule("nak-code", Warning, "9.7.5, NAK codes", "The NAK code is one that the request can cause.")

	// Management datagrams, and the connection manager's conversation.
	ruleMAD           = rule("mad-format", Violation, "13.4.2, 13.4.3", "A datagram to QP1 has 256 bytes and base version 1. One of the connection manager has class version 2, method Send, and a message that exists.")
	ruleCMLength      = rule("cm-info-length", Violation, "12.6, reject; 12.8.2; 12.11.2", "A REJ, SIDR_REP or APR has at most 72 bytes of additional information.")
	ruleCMAddress     = rule("cm-ip-header", Violation, "A11, RDMA IP CM service", "The private data of a REQ or SIDR_REQ for a port begins with a header of version 0 with the addresses of two hosts.")
	ruleCMStatus      = rule("cm-reason", Violation, "12.6, reject; 12.11.2", "The reason of a REJ and the status of a SIDR_REP are defined. A REJ or MRA names a message that it can answer.")
	ruleCMIDs         = rule("cm-ids", Violation, "12.6, communication ID", "The messages of a connection have the communication IDs of its REQ and REP. A DREQ has the receiver's queue pair, and a SIDR_REP the service of its request.")
	ruleCMTransaction = rule("cm-transaction", Warning, "12.6, transaction ID", "REP, RTU and REJ have the transaction ID of the REQ, a DREP that of its DREQ, and a SIDR_REP that of its SIDR_REQ.")
	ruleCMXRC         = rule("cm-xrc", Warning, "A14, connection establishment", "The REP to an XRC initiator names a target, as an end-to-end context, and says that there is an SRQ.")
	ruleCMOrder       = rule("cm-order", Warning, "12.9, communication establishment and release", "A REP and an RTU come from their own sides. An RTU or a DREQ follows a REP, and a DREP follows a DREQ.")
	ruleCMResent      = rule("cm-resent", Violation, "12.9, communication establishment and release", "A REQ, REP, DREQ or SIDR_REQ that is sent again is the same as before.")
	ruleCMRetries     = rule("cm-retries", Warning, "12.6, request for communication", "A message is sent again as often as the REQ says, and not before the time for its answer is over.")
	ruleCMTimewait    = rule("cm-timewait", Warning, "12.9, timewait", "The communication ID of a connection rests after its DREP, for the time that its REQ says.")

	// Congestion.
	ruleCNPCause    = rule("cnp-unprompted", Note, "A17.9.3, CA17-44", "A CNP answers a packet marked CE. (A switch beyond the point of capture may have set the mark.)")
	ruleCNPRate     = rule("cnp-rate", Warning, "A17.9.3, CA17-44", "There are no more CNPs than packets marked CE.")
	ruleCNPReaction = rule("cnp-reaction", Note, "A17.9.3, CA17-45", "A sender sends less after a CNP, unless it was slower than necessary before.")
)

// allRules fills as the variables above are initialised.
var allRules []*Rule

func rule(name string, s Severity, clause, text string, implies ...string) *Rule {
	if !strings.HasPrefix(clause, "RFC") {
		clause = "IBA " + clause
	}
	r := &Rule{Name: name, Text: text, Severity: s, Clause: clause, Implies: implies, index: len(allRules)}
	allRules = append(allRules, r)
	return r
}

// Rules returns all rules, in the order of the documentation.
func Rules() []*Rule { return slices.Clone(allRules) }

// RuleByName returns the rule of that name, nil if there is none.
func RuleByName(name string) *Rule {
	for _, r := range allRules {
		if r.Name == name {
			return r
		}
	}
	return nil
}

// ruleSet is a set of rules.
type ruleSet []bool

func newRuleSet(names []string) (ruleSet, error) {
	s := make(ruleSet, len(allRules))
	for _, n := range names {
		r := RuleByName(n)
		if r == nil {
			return nil, fmt.Errorf("no rule is named %q", n)
		}
		s[r.index] = true
	}
	return s, nil
}
