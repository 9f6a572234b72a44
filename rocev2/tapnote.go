package rocev2

import (
	"encoding/binary"
	"time"
	"unicode/utf8"
)

// The writer of package pcapgo knows no options of packets, so that a Tap writes its packets
// itself.

// notePrefix begins the comment of a packet that has a note.
const notePrefix = "gorxe: "

// appendPacket appends a packet of an interface as an Enhanced Packet Block
// (draft-ietf-opsawg-pcapng, 4.3). It has a comment for the note, and one for the work that the
// packet is of, unless they are empty.
func appendPacket(b []byte, iface uint32, at time.Time, packet []byte, note, work string) []byte {
	const block = 6
	start := len(b)
	ts := uint64(at.UnixNano())
	n := uint32(len(packet))
	b = append(b, make([]byte, 8)...)
	// the interface, the time, both lengths
	for _, v := range [...]uint32{iface, uint32(ts >> 32), uint32(ts), n, n} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	b = pad4(append(b, packet...), start)
	if note != "" {
		b = appendComment(b, start, notePrefix+note)
	}
	if work != "" {
		b = appendComment(b, start, work)
	}
	if note != "" || work != "" {
		b = append(b, 0, 0, 0, 0) // the end of the options
	}
	binary.LittleEndian.PutUint32(b[start:], block)
	binary.LittleEndian.PutUint32(b[start+4:], uint32(len(b)-start+4))
	return binary.LittleEndian.AppendUint32(b, uint32(len(b)-start+4))
}

// appendComment appends an option of a block that begins at start.
func appendComment(b []byte, start int, text string) []byte {
	const comment = 1
	if end := maxNote; len(text) > end {
		for !utf8.RuneStart(text[end]) { // the comment is UTF-8
			end--
		}
		text = text[:end]
	}
	b = binary.LittleEndian.AppendUint16(b, comment)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(text)))
	return pad4(append(b, text...), start)
}

// pad4 pads with zeros to a multiple of four bytes since start.
func pad4(b []byte, start int) []byte { return append(b, "\x00\x00\x00"[:-(len(b)-start)&3]...) }
