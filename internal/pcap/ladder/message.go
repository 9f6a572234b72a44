package ladder

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/gorxe/gorxe/internal/explain/plural"
	"github.com/gorxe/gorxe/rocev2/conformance"
	"github.com/gorxe/gorxe/wire"
)

// pageItem is a packet, or a message of several packets that the page folds into one row.
type pageItem struct {
	Lines []pageLine
	// of a message
	Folded bool
	Class  string
	Arrow  string
	Text   string
}

// Whole is the message's first packet.
func (i *pageItem) Whole() *pageLine { return &i.Lines[0] }

// messageKey names the messages of which one at a time is under way.
type messageKey struct {
	right, response bool
}

// messages groups the rows of a conversation: the packets of a message, from FIRST to LAST, and
// each other packet by itself. Packets that are sent again are a group of their own.
func (v *Conversation) messages() (groups [][]*Row) {
	open := make(map[messageKey]int)
	for _, r := range v.Rows {
		if !r.parsed || r.ICRC == conformance.ICRCBad || !r.pkt.Info().Has(wire.OpFirst|wire.OpMiddle|wire.OpLast) {
			groups = append(groups, []*Row{r})
			continue
		}
		info := r.pkt.Info()
		key := messageKey{v.ToRight(r), info.Has(wire.OpResponse)}
		at, ok := open[key]
		if ok && !info.Has(wire.OpFirst) && follows(groups[at], r) {
			groups[at] = append(groups[at], r)
		} else {
			open[key] = len(groups)
			groups = append(groups, []*Row{r})
		}
		if info.Has(wire.OpLast) {
			delete(open, key)
		}
	}
	return groups
}

// follows reports whether r may be the next packet of a message.
func follows(group []*Row, r *Row) bool {
	last := group[len(group)-1]
	step := r.pkt.PSN().Diff(last.pkt.PSN())
	return step >= 1 && int64(step) <= 1+int64(r.skipped) && r.again() == last.again() && operation(r) == operation(last)
}

// operation is the opcode without the place in the message.
func operation(r *Row) string {
	name := strings.TrimSuffix(r.pkt.Info().Name, "_WITH_IMMEDIATE")
	name = strings.TrimSuffix(name, "_WITH_INVALIDATE")
	if i := strings.LastIndexByte(name, '_'); i > 0 {
		name = name[:i]
	}
	return strings.Replace(name, "_", " ", 1)
}

// items returns what the page shows of a conversation.
func (c *Collector) items(v *Conversation) (items []pageItem) {
	before := make(map[*Row]time.Time, len(v.Rows))
	place := make(map[*Row]int, len(v.Rows))
	for i, r := range v.Rows {
		before[r], place[r] = r.Time, i
		if i > 0 {
			before[r] = v.Rows[i-1].Time
		}
	}
	for _, group := range v.messages() {
		var item pageItem
		for _, r := range group {
			item.Lines = append(item.Lines, c.line(v, r, r.Time.Sub(before[r])))
		}
		last := group[len(group)-1]
		took := v.untilACK(group[0], last, place[last])
		switch {
		case len(group) > 1:
			item.Folded, item.Arrow = true, arrowText(v, group[0])
			item.Class, item.Text = messageClass(v, group), messageText(group)+took
		case took != "":
			item.Lines[0].Took = took
		}
		items = append(items, item)
	}
	return items
}

// messageClass is the classes of the worst packet, and the direction.
func messageClass(v *Conversation, group []*Row) string {
	class := rowClass(group[0], v.ToRight(group[0]))
	worst := group[0]
	for _, r := range group {
		if rank(r) > rank(worst) {
			worst, class = r, rowClass(r, v.ToRight(r))
		}
	}
	return strings.TrimSuffix(class, " notable")
}

// rank orders rows by how much they matter to a reader.
func rank(r *Row) int {
	n := 4 * int(r.Severity())
	switch {
	case r.Lost():
		n += 3
	case r.again():
		n += 2
	case len(r.Tags()) > 0:
		n++
	}
	return n
}

// messageText says what a message is: its operation, bytes and packets.
func messageText(group []*Row) string {
	first, last := group[0], group[len(group)-1]
	n, bytes, lost, hits, hit := uint64(0), 0, uint64(0), uint64(0), ""
	for i, r := range group {
		n++
		if i > 0 {
			n += uint64(r.pkt.PSN().Diff(group[i-1].pkt.PSN())) - 1 // those that are left out
		}
		bytes += r.Payload
		if r.Lost() {
			lost++
		}
		if r.Fault != "" {
			hit, hits = cmp.Or(hit, r.Fault), hits+1
		}
	}
	whole := first.pkt.Info().Has(wire.OpFirst) && last.pkt.Info().Has(wire.OpLast)
	size := byteCount(uint64(bytes))
	switch {
	case whole && first.pkt.Info().Has(wire.HasRETH):
		size = byteCount(uint64(first.pkt.DMALen()))
	case n != uint64(len(group)):
		size = "more than " + size
	}
	text := fmt.Sprintf("%s psn 0x%06x–0x%06x  %s, %s", operation(first), uint32(first.pkt.PSN()), uint32(last.pkt.PSN()), size, packets(n))
	if first.again() {
		text += ", sent again"
	}
	if !whole {
		text += ", not from FIRST to LAST"
	}
	switch {
	case hit != "" && lost == 0:
		text += fmt.Sprintf(", %d of them [%s]", hits, hit)
	case hit != "":
		text += fmt.Sprintf(", %s [%s]", plural.Of(lost, "packet")+" lost", hit)
	}
	return text
}

// maxACKSearch bounds the rows among which an acknowledgement is looked for.
const maxACKSearch = 4096

// untilACK says how long it took from the first packet of a request until its last one was
// acknowledged. at is the place of the last one. It says nothing of other packets.
func (v *Conversation) untilACK(first, last *Row, at int) string {
	if !first.parsed || first.ICRC == conformance.ICRCBad || !first.pkt.Info().Has(wire.OpRequest) || !last.pkt.Info().Has(wire.OpEnd) || first.again() {
		return ""
	}
	psn := last.pkt.PSN()
	if first.pkt.Info().Has(wire.OpRead) && len(v.Stats) > 0 {
		return "" // its responses say that
	}
	rest := v.Rows[at+1:]
	for _, r := range rest[:min(len(rest), maxACKSearch)] {
		if r.Flow == first.Flow || !r.parsed || r.ICRC == conformance.ICRCBad || !r.pkt.Info().Has(wire.HasAETH) || !r.pkt.Syndrome().IsACK() {
			continue
		}
		if r.pkt.PSN().Diff(psn) >= 0 {
			return ", " + duration(r.Time.Sub(first.Time)) + " until its ACK"
		}
	}
	return ""
}

// duration writes a time with three digits.
func duration(d time.Duration) string {
	switch {
	case d < 0:
		return "the clock goes back"
	case d < 10*time.Microsecond:
		return fmt.Sprintf("%.1f µs", float64(d)/1e3)
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < time.Second:
		return fmt.Sprintf("%.1f ms", d.Seconds()*1e3)
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

// byteCount writes a number of bytes, with a unit where that loses nothing.
func byteCount(n uint64) string {
	for _, u := range [...]struct {
		shift int
		name  string
	}{{30, "GiB"}, {20, "MiB"}, {10, "KiB"}} {
		if n > 0 && n&(1<<u.shift-1) == 0 {
			return fmt.Sprintf("%d %s", n>>u.shift, u.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}
