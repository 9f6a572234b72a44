package replay

import (
	"fmt"
	"net/netip"

	"github.com/gorxe/gorxe/internal/explain/plural"
	"github.com/gorxe/gorxe/wire"
)

// maxTalks bounds the talks of a capture.
const maxTalks = 1 << 12

// talk is what two connection managers said about one connection, or about one lookup of a
// service. Its active side sent the REQ or SIDR_REQ, which is the first message.
type talk struct {
	key       talkKey
	passiveID uint32 // the comm ID of the passive side; 0: not said
	messages  []cmMessage
}

// talkKey names a talk by the number that its active side chose.
type talkKey struct {
	active, passive netip.Addr
	id              uint32
	lookup          bool // of a service, with a request ID
}

// cmMessage is one captured message.
type cmMessage struct {
	number int  // in the capture
	active bool // the active side sent it
	psn    wire.PSN
	mad    *wire.MAD
}

// talks divides the messages of a capture by talks.
type talks struct {
	last    map[talkKey]*talk // numbers may be used again
	all     []*talk
	orphans int // messages without a REQ or SIDR_REQ
	tooMany int // requests beyond maxTalks
}

func newTalks() talks { return talks{last: make(map[talkKey]*talk)} }

// add adds a datagram to queue pair 1, and keeps it. It ignores those of other classes.
func (t *talks) add(number int, src, dst netip.Addr, pkt wire.Packet) {
	datagram := pkt.Payload()
	msg, err := wire.ParseCM(datagram)
	if err != nil {
		return
	}
	e := cmMessage{number: number, psn: pkt.PSN(), mad: (*wire.MAD)(datagram)}
	var k *talk
	switch msg := msg.(type) {
	case wire.CMREQ:
		k, e.active = t.request(talkKey{src, dst, msg.LocalCommID(), false}, msg.TID()), true
	case wire.CMSIDRREQ:
		k, e.active = t.request(talkKey{src, dst, msg.RequestID(), true}, msg.TID()), true
	case wire.CMSIDRREP:
		k = t.last[talkKey{dst, src, msg.RequestID(), true}]
	case identified:
		k, e.active = t.of(src, dst, msg)
		if k != nil && !e.active && k.passiveID == 0 {
			k.passiveID = msg.LocalCommID()
		}
	}
	if k == nil {
		t.orphans++
		return
	}
	k.messages = append(k.messages, e)
}

// identified are the messages that name both ends of a connection.
type identified interface {
	wire.CMMessage
	LocalCommID() uint32
	RemoteCommID() uint32
	SetCommIDs(local, remote uint32)
}

// request returns the talk of a request: a new one unless the request is sent again. It
// returns nil if there are too many.
func (t *talks) request(key talkKey, tid uint64) *talk {
	if k := t.last[key]; k != nil && k.messages[0].mad.TID() == tid {
		return k
	}
	if len(t.all) == maxTalks {
		t.tooMany++
		t.orphans-- // add counts it
		return nil
	}
	k := &talk{key: key}
	t.all = append(t.all, k)
	t.last[key] = k
	return k
}

// of returns the talk of a message, and whether its active side sent it.
func (t *talks) of(src, dst netip.Addr, m identified) (k *talk, active bool) {
	byActive := t.last[talkKey{src, dst, m.LocalCommID(), false}]
	byPassive := t.last[talkKey{dst, src, m.RemoteCommID(), false}]
	switch {
	case byActive == nil:
		return byPassive, false
	case byPassive == nil || byActive.passiveID != 0 && byActive.passiveID == m.RemoteCommID():
		return byActive, true
	default: // both sides chose one number, for two connections
		return byPassive, false
	}
}

// skipped lists the messages that belong to no talk.
func (t *talks) skipped() (list []Skipped) {
	if t.orphans > 0 {
		list = append(list, Skipped{Why: plural.Of(t.orphans, "message") + " of connection managers: the capture lacks the request, or it is not played"})
	}
	if t.tooMany > 0 {
		list = append(list, Skipped{Why: fmt.Sprintf("%s of connection managers: more than %d connections", plural.Of(t.tooMany, "request"), maxTalks)})
	}
	return list
}

// alone returns a talk of which the capture has one side only. It leaves out the messages that this
// side sent because it had heard the other: they name the number that the other chose. unheard
// counts them.
func (k *talk) alone() (rest *talk, unheard int) {
	rest = &talk{key: k.key}
	for _, e := range k.messages {
		if m, ok := parsed(e.mad).(identified); ok && m.RemoteCommID() != 0 {
			unheard++
			continue
		}
		rest.messages = append(rest.messages, e)
	}
	return rest, unheard
}

// name says which talk a session plays, and which side of it.
func (k *talk) name(active bool) string {
	side := "passive"
	if active {
		side = "active"
	}
	return fmt.Sprintf("CM %v > %v ID 0x%08x, %s side", k.key.active, k.key.passive, k.key.id, side)
}

// request returns the first message.
func (k *talk) request() *wire.MAD { return k.messages[0].mad }

// first returns the first message of a side, nil if it has none.
func (k *talk) first(active bool) wire.CMMessage {
	for i := range k.messages {
		if e := &k.messages[i]; e.active == active {
			return parsed(e.mad)
		}
	}
	return nil
}

// parsed returns the message in a datagram that add has parsed, or that a Machine sent.
func parsed(m *wire.MAD) wire.CMMessage {
	msg, _ := wire.ParseCM(m[:]) //nolint:errcheck // add or the Machine has parsed it
	return msg
}
