package rocev2

import (
	"encoding/binary"
	"time"
	"unicode/utf8"
)

// The writer of package pcapgo knows no options of packets, so that a Tap writes those with a note
// itself.

// notePrefix begins the comment of a packet that has a note.
const notePrefix = "gorxe: "

// writeNoted writes t.packet as an Enhanced Packet Block with a comment (draft-ietf-opsawg-pcapng,
// 4.3), as WritePacket of pcapgo writes one without. t.mu is locked.
func (t *Tap) writeNoted(at time.Time, note string) error {
	const block, comment = 6, 1
	note = notePrefix + note
	if end := maxNote; len(note) > end {
		for !utf8.RuneStart(note[end]) { // the comment is UTF-8
			end--
		}
		note = note[:end]
	}
	ts := uint64(at.UnixNano())
	n := uint32(len(t.packet))
	b := make([]byte, 8, 64+len(t.packet)+len(note))
	// the interface, the time, both lengths
	for _, v := range []uint32{0, uint32(ts >> 32), uint32(ts), n, n} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	b = pad4(append(b, t.packet...))
	b = binary.LittleEndian.AppendUint16(b, comment)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(note)))
	b = pad4(append(b, note...))
	b = append(b, 0, 0, 0, 0) // the end of the options
	binary.LittleEndian.PutUint32(b, block)
	binary.LittleEndian.PutUint32(b[4:], uint32(len(b)+4))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(b)+4))
	if err := t.w.Flush(); err != nil { // what it has, comes before
		return err
	}
	_, err := t.buf.Write(b)
	return err
}

// pad4 pads with zeros to a multiple of four bytes.
func pad4(b []byte) []byte { return append(b, make([]byte, -len(b)&3)...) }
