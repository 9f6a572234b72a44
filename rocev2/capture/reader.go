package capture

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// What Next returns besides io.EOF.
var (
	// ErrCut: the file ends within a packet, because the capture is still running or
	// was killed. All packets before it have been read.
	ErrCut = errors.New("capture file ends within a packet")
	// ErrFormat: not a capture file, or damaged.
	ErrFormat = errors.New("not a pcap or pcapng file")
)

const (
	bufferSize = 1 << 18
	// maxFrame bounds the memory that a damaged file can ask for. IP packets have up
	// to 64 KiB, and in captures before segmentation (BIG TCP) some hundred KiB.
	maxFrame = 1 << 20
)

// Reader reads a capture. It is for one goroutine.
type Reader struct {
	in     io.Reader
	buf    []byte
	lo, hi int   // buf[lo:hi] is filled and not read yet
	err    error // of in; comes after what is in buf
	offset int64

	little bool
	next   func(r *Reader, p *Packet) error
	number int
	drops  uint64

	// pcap
	link LinkType
	nano bool
	// pcapng
	interfaces []iface
}

// NewReader returns a reader of the pcap or pcapng file in, which may be
// compressed with gzip.
func NewReader(in io.Reader) (*Reader, error) {
	head := bufio.NewReaderSize(in, 16)
	if magic, err := head.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(head)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFormat, err)
		}
		in = z
	} else {
		in = head
	}
	r := &Reader{in: in, buf: make([]byte, bufferSize)}
	magic, err := r.peek(4)
	switch {
	case err == io.EOF:
		return nil, fmt.Errorf("%w: it is empty", ErrFormat)
	case err != nil && !errors.Is(err, ErrCut):
		return nil, err
	case err != nil:
		return nil, ErrFormat
	}
	if bytes.Equal(magic, []byte{0x0a, 0x0d, 0x0d, 0x0a}) {
		r.next = (*Reader).nextNG
		return r, r.section()
	}
	return r, r.fileHeader(magic)
}

// Next reads the next frame into p. At the end of the file it returns io.EOF, or
// ErrCut if the last packet is incomplete. It returns ErrFormat if it cannot read the
// rest of the file.
func (r *Reader) Next(p *Packet) error { return r.next(r, p) }

// Offset returns how many bytes of the uncompressed file have been read.
func (r *Reader) Offset() int64 { return r.offset }

// Drops returns how many packets the file itself records as lost. pcapng files have
// that count for losses within the capturing system.
func (r *Reader) Drops() uint64 { return r.drops }

// peek returns the next n bytes without taking them. At the end of the file the
// error is io.EOF if there are none, and ErrCut if there are some.
func (r *Reader) peek(n int) ([]byte, error) {
	if r.hi-r.lo < n {
		if err := r.fill(n); err != nil {
			return nil, err
		}
	}
	return r.buf[r.lo : r.lo+n], nil
}

func (r *Reader) fill(n int) error {
	copy(r.buf, r.buf[r.lo:r.hi])
	r.lo, r.hi = 0, r.hi-r.lo
	if n > len(r.buf) {
		r.buf = append(r.buf[:r.hi], make([]byte, n-r.hi)...)
	}
	for empty := 0; r.hi < n; {
		if r.err != nil {
			switch {
			case r.err != io.EOF && r.err != io.ErrUnexpectedEOF:
				return r.err
			case r.hi == 0 && r.err == io.EOF:
				return io.EOF
			}
			return ErrCut
		}
		m, err := r.in.Read(r.buf[r.hi:])
		r.hi, r.err = r.hi+m, err
		if m > 0 {
			empty = 0
		} else if empty++; err == nil && empty > 100 {
			r.err = io.ErrNoProgress
		}
	}
	return nil
}

func (r *Reader) skip(n int) { r.lo, r.offset = r.lo+n, r.offset+int64(n) }

// discard skips n bytes that need not fit in the buffer.
func (r *Reader) discard(n int) error {
	for n > 0 {
		m := min(n, bufferSize)
		if _, err := r.peek(m); err != nil {
			if err == io.EOF {
				err = ErrCut
			}
			return err
		}
		r.skip(m)
		n -= m
	}
	return nil
}

func (r *Reader) u32(b []byte) uint32 {
	if r.little {
		return binary.LittleEndian.Uint32(b)
	}
	return binary.BigEndian.Uint32(b)
}

func (r *Reader) u16(b []byte) uint16 {
	if r.little {
		return binary.LittleEndian.Uint16(b)
	}
	return binary.BigEndian.Uint16(b)
}

// bad returns ErrFormat with a reason.
func (r *Reader) bad(format string, args ...any) error {
	return fmt.Errorf("%w: byte %d: %s", ErrFormat, r.offset, fmt.Sprintf(format, args...))
}

const (
	pcapHeaderLen = 24
	pcapRecordLen = 16
)

// fileHeader reads the header of a pcap file.
func (r *Reader) fileHeader(magic []byte) error {
	switch binary.LittleEndian.Uint32(magic) {
	case 0xa1b2c3d4:
		r.little = true
	case 0xa1b23c4d:
		r.little, r.nano = true, true
	case 0xd4c3b2a1:
	case 0x4d3cb2a1:
		r.nano = true
	default:
		return fmt.Errorf("%w: it begins with % x", ErrFormat, magic)
	}
	head, err := r.peek(pcapHeaderLen)
	if err != nil {
		return fmt.Errorf("%w: no whole header", ErrFormat)
	}
	// The upper bits say whether frames end in their FCS. They do not matter, because
	// the FCS comes after the IP packet.
	r.link = LinkType(r.u32(head[20:]))
	r.skip(pcapHeaderLen)
	r.next = (*Reader).nextPcap
	return nil
}

func (r *Reader) nextPcap(p *Packet) error {
	head, err := r.peek(pcapRecordLen)
	if err != nil {
		return err
	}
	sec, frac := r.u32(head), r.u32(head[4:])
	captured, length := r.u32(head[8:]), r.u32(head[12:])
	if captured > maxFrame {
		return r.bad("a packet of %d bytes", captured)
	}
	all, err := r.peek(pcapRecordLen + int(captured))
	if err != nil {
		return err
	}
	if !r.nano {
		frac *= 1000
	}
	r.number++
	r.skip(len(all))
	*p = Packet{
		Number: r.number,
		Time:   time.Unix(int64(sec), int64(frac)),
		Link:   r.link,
		Frame:  all[pcapRecordLen:],
		Length: frameLength(length, captured),
	}
	p.Decode()
	return nil
}

// frameLength returns the length on the wire. It is never less than the captured
// length, even if the file says so.
func frameLength(length, captured uint32) int {
	if length < captured || length > 1<<30 {
		return int(captured)
	}
	return int(length)
}
