package lab

import (
	"bufio"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"strings"

	"github.com/gorxe/gorxe/cmd/internal/labfile"
	"github.com/gorxe/gorxe/rocev2/capture"
)

// Merge joins the captures of the hosts' daemons to one, which has an interface for each link of a
// host. A packet between two hosts is in the captures of both. The merged capture has it once: as
// the host saw it that the lab's file names first. A checker expects that, because a device sees
// each packet of a connection once. max bounds the bytes of the packets, unless it is 0; Merge
// returns how many packets it left out. A path that is empty is no capture.
func Merge(lab *labfile.Lab, paths []string, to io.Writer, max uint64) (leftOut uint64, err error) {
	where := make(map[netip.Addr]place)
	for i := range lab.Hosts {
		for j := range lab.Hosts[i].Ports {
			p := &lab.Hosts[i].Ports[j]
			where[p.Address.Addr()] = place{i, p.Link}
			where[p.LinkLocal()] = place{i, p.Link}
		}
	}
	var sources sources
	defer func() {
		for _, s := range sources {
			s.file.Close()
		}
	}()
	for i, path := range paths {
		if path == "" {
			continue
		}
		s, err := openSource(i, path)
		if err != nil {
			return 0, err
		}
		if s == nil {
			continue
		}
		sources = append(sources, s)
	}
	heap.Init(&sources)
	w := bufio.NewWriterSize(to, 256<<10)
	writeHeader(w, lab)
	var written uint64
	for len(sources) > 0 {
		s := sources[0]
		if link, ok := s.keep(where); ok {
			if written += uint64(len(s.p.Frame)); max != 0 && written > max {
				leftOut++
			} else {
				writePacket(w, link, &s.p)
			}
		}
		if err := s.next(); errors.Is(err, io.EOF) {
			s.file.Close()
			heap.Pop(&sources)
		} else if err != nil {
			return 0, fmt.Errorf("%s: %w", s.file.Name(), err)
		} else {
			heap.Fix(&sources, 0)
		}
	}
	return leftOut, w.Flush()
}

// place is where an address is.
type place struct{ host, link int }

// source is the capture of one host, at one packet.
type source struct {
	host   int
	file   *os.File
	reader *capture.Reader
	p      capture.Packet
}

// openSource opens a capture at its first packet. It returns nil if there is none.
func openSource(host int, path string) (*source, error) {
	f, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist): // the daemon did not start
		return nil, nil
	case err != nil:
		return nil, err
	}
	s := &source{host: host, file: f}
	st, err := f.Stat()
	switch {
	case err == nil && st.Size() == 0: // the daemon did not start
		err = io.EOF
	case err == nil:
		if s.reader, err = capture.NewReader(f); err == nil {
			err = s.next()
		}
	}
	if err != nil {
		f.Close()
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// next reads the next packet. A daemon that was killed may have left half of one.
func (s *source) next() error {
	err := s.reader.Next(&s.p)
	if errors.Is(err, capture.ErrCut) {
		return io.EOF
	}
	return err
}

// keep returns the link at which this host saw the packet. It is false if the merged capture has
// the packet from another host.
func (s *source) keep(where map[netip.Addr]place) (link int, ok bool) {
	src, from := where[s.p.Src]
	dst, to := where[s.p.Dst]
	switch {
	case from && src.host == s.host:
		return src.link, !to || s.host <= dst.host
	case to && dst.host == s.host:
		return dst.link, !from || s.host <= src.host
	}
	return 0, false // a multicast packet of another host
}

// sources are captures, first the one whose packet is next.
type sources []*source

func (s sources) Len() int           { return len(s) }
func (s sources) Less(i, j int) bool { return s[i].p.Time.Before(s[j].p.Time) }
func (s sources) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *sources) Push(x any)        { *s = append(*s, x.(*source)) }
func (s *sources) Pop() any {
	last := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return last
}

// The blocks of a pcapng file (draft-ietf-opsawg-pcapng, section 4), and their options.
const (
	sectionBlock   = 0x0a0d0d0a
	interfaceBlock = 1
	packetBlock    = 6

	optionComment    = 1
	optionName       = 2
	optionResolution = 9
	nanoseconds      = 9
	linkRaw          = 101
)

// writeHeader begins a file with an interface for each link. An error is w's, which Flush returns.
func writeHeader(w *bufio.Writer, lab *labfile.Lab) {
	b := binary.LittleEndian.AppendUint32(nil, 0x1a2b3c4d)
	// version 1.0, of any length
	b = append(b, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
	writeBlock(w, sectionBlock, b)
	for i := range lab.Links {
		l := &lab.Links[i]
		b = binary.LittleEndian.AppendUint32(b[:0], linkRaw)
		b = binary.LittleEndian.AppendUint32(b, 0) // no limit of the frames
		b = appendOption(b, optionName, []byte(l.Ends[0].String()+" - "+l.Ends[1].String()))
		b = appendOption(b, optionResolution, []byte{nanoseconds})
		writeBlock(w, interfaceBlock, appendOption(b, 0, nil))
	}
}

func writePacket(w *bufio.Writer, link int, p *capture.Packet) {
	at := uint64(p.Time.UnixNano())
	b := make([]byte, 0, 64+len(p.Frame)+len(p.Comment))
	for _, v := range []uint32{uint32(link), uint32(at >> 32), uint32(at), uint32(len(p.Frame)), uint32(p.Length)} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	b = pad4(append(b, p.Frame...))
	if len(p.Comment) > 0 {
		b = appendOption(appendOption(b, optionComment, p.Comment), 0, nil)
	}
	writeBlock(w, packetBlock, b)
}

func appendOption(b []byte, code uint16, value []byte) []byte {
	b = binary.LittleEndian.AppendUint16(b, code)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(value)))
	return pad4(append(b, value...))
}

func writeBlock(w *bufio.Writer, kind uint32, body []byte) {
	const frame = 12
	var head [8]byte
	binary.LittleEndian.PutUint32(head[:], kind)
	binary.LittleEndian.PutUint32(head[4:], uint32(len(body)+frame))
	w.Write(head[:])  //nolint:errcheck // Flush returns the error
	w.Write(body)     //nolint:errcheck // as above
	w.Write(head[4:]) //nolint:errcheck // as above
}

// pad4 pads with zeros to a multiple of four bytes.
func pad4(b []byte) []byte { return append(b, make([]byte, -len(b)&3)...) }

// names is the file /etc/hosts of a lab: the first address of each host is its name's, and the
// others are those of HOST-INTERFACE.
func names(lab *labfile.Lab) string {
	var b strings.Builder
	b.WriteString("127.0.0.1\tlocalhost\n::1\tlocalhost\n")
	for i := range lab.Hosts {
		h := &lab.Hosts[i]
		fmt.Fprintf(&b, "%v\t%s\n", h.Ports[0].Address.Addr(), h.Name)
	}
	for i := range lab.Hosts {
		for _, p := range lab.Hosts[i].Ports {
			fmt.Fprintf(&b, "%v\t%s-%s\n", p.Address.Addr(), lab.Hosts[i].Name, p.Interface)
		}
	}
	return b.String()
}
