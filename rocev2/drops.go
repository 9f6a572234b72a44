package rocev2

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// drops counts the packets that the kernel dropped at the port's sockets. A socket has one counter
// for packets without room and packets that its filter dropped. The network namespace counts
// packets without room only, but of all of its sockets: an upper limit for the port's.
type drops struct {
	mu     sync.Mutex
	files  []*os.File // nil: unknown, and all count as lost
	noRoom uint64     // what the files said last
}

// bufferErrors are the fields of /proc/net/snmp and snmp6 that count datagrams without room:
// in the socket, and in the memory of all sockets (net/ipv4/udp.c: __udp_queue_rcv_skb).
var bufferErrors = []string{"RcvbufErrors", "MemErrors"}

// open remembers the counts of the thread's network namespace.
func (d *drops) open() {
	for _, name := range []string{"snmp", "snmp6"} {
		if f, err := os.Open("/proc/thread-self/net/" + name); err == nil {
			d.files = append(d.files, f)
		}
	}
	d.noRoom = d.read()
}

func (d *drops) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range d.files {
		f.Close()
	}
	d.files = nil
}

// read returns how many datagrams found no room in the namespace so far.
func (d *drops) read() (n uint64) {
	buf := make([]byte, dropsFileBytes)
	for _, f := range d.files {
		got, _ := f.ReadAt(buf, 0) // io.EOF is usual
		n += sumBufferErrors(string(buf[:got]))
	}
	return n
}

// sumBufferErrors reads a file of either form. That of IPv4 has a line with the names of a
// protocol's counters and then one with the values; that of IPv6 has a line for each counter.
func sumBufferErrors(text string) (n uint64) {
	var names []string
	for line := range strings.Lines(text) {
		field := strings.Fields(line)
		switch {
		case len(field) == 2:
			if name, ok := strings.CutPrefix(field[0], "Udp6"); ok && isBufferError(name) {
				n += number(field[1])
			}
		case len(field) == 0 || field[0] != "Udp:":
		case names == nil:
			names = field
		default:
			for i := range min(len(names), len(field)) {
				if isBufferError(names[i]) {
					n += number(field[i])
				}
			}
		}
	}
	return n
}

func isBufferError(name string) bool { return slices.Contains(bufferErrors, name) }

func number(s string) uint64 {
	n, _ := strconv.ParseUint(s, 10, 64) // the kernel writes numbers
	return n
}

// countDrops brings ReceiveQueueDrop and ReceiveFilterDrop up to date.
func (p *Port) countDrops() {
	p.filter.mu.Lock()
	sockets := make([]*receiver, 0, len(p.filter.sockets))
	for rx := range p.filter.sockets {
		sockets = append(sockets, rx)
	}
	p.filter.mu.Unlock()
	d := &p.drops
	d.mu.Lock()
	defer d.mu.Unlock()
	var dropped uint64
	for _, rx := range sockets {
		_ = rx.control(func(fd int) { // fails if it was closed
			info, err := socketMemory(fd)
			if err == nil {
				dropped += uint64(info.dropped - rx.dropped)
				rx.dropped = info.dropped
			}
		})
	}
	if dropped == 0 {
		return
	}
	lost := dropped
	if d.files != nil && p.filter.on() {
		now := d.read()
		lost = min(lost, now-d.noRoom)
		d.noRoom = now
	}
	p.counters.ReceiveQueueDrop.Add(lost)
	p.counters.ReceiveFilterDrop.Add(dropped - lost)
}
