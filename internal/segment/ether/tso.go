package ether

import (
	"encoding/binary"
	"errors"
	"iter"
)

// errSegments says that a frame cannot be cut: it is not a whole TCP segment, or its headers have
// another length than the program said.
var errSegments = errors.New("not a TCP frame that can be cut")

// Flags of TCP.
const (
	tcpFIN = 1 << 0
	tcpPSH = 1 << 3
	tcpCWR = 1 << 7
)

// Segments cuts a TCP frame into frames with at most mss bytes of payload. headers is what the
// program says about the size of all headers. The lengths in the IP header do not matter, because
// the frame may be larger than they can say. Each segment is built in buf, which is large enough
// for headers and mss.
func Segments(frame []byte, headers, mss int, buf []byte) (iter.Seq[[]byte], error) {
	if headers < HeaderSize || headers > len(frame) || mss <= 0 || len(buf) < headers+min(mss, len(frame)-headers) {
		return nil, errSegments
	}
	// The headers alone, with their real length, are parsed.
	head := append(buf[:0], frame[:headers]...)
	f := Parse(head)
	if f.Version == 0 {
		return nil, errSegments
	}
	f.setLength()
	if f = Parse(head); f.Proto != ProtoTCP || f.L4 == 0 || f.L4+int(head[f.L4+12]>>4)*4 != headers {
		return nil, errSegments
	}
	return func(yield func([]byte) bool) {
		seq := binary.BigEndian.Uint32(frame[f.L4+4:])
		id := binary.BigEndian.Uint16(frame[f.IP+4:])
		flags := frame[f.L4+13]
		payload := frame[headers:]
		for at := 0; at == 0 || at < len(payload); at += mss {
			n := min(mss, len(payload)-at)
			out := append(append(buf[:0], frame[:headers]...), payload[at:at+n]...)
			s := f
			s.Data, s.End = out, len(out)
			s.setLength()
			if s.Version == 4 {
				binary.BigEndian.PutUint16(out[s.IP+4:], id)
				id++
			}
			binary.BigEndian.PutUint32(out[s.L4+4:], seq+uint32(at))
			if at+n < len(payload) {
				out[s.L4+13] &^= tcpFIN | tcpPSH
			}
			if at > 0 {
				out[s.L4+13] &^= flags & tcpCWR
			}
			s.SetSums(true, true)
			if !yield(out) {
				return
			}
		}
	}, nil
}

// setLength writes the length of the IP packet: to the end of the frame.
func (f *Frame) setLength() {
	if f.Version == 4 {
		binary.BigEndian.PutUint16(f.Data[f.IP+2:], uint16(len(f.Data)-f.IP))
		return
	}
	binary.BigEndian.PutUint16(f.Data[f.IP+4:], uint16(len(f.Data)-f.IP-ipv6Size))
}
