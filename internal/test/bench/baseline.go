package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/gorxe/gorxe/internal/test/udpbaseline"
	"github.com/gorxe/gorxe/wire"
)

// What a packet has besides its payload: always, and in a WRITE of one packet.
const (
	packetOverhead = wire.BTHLen + wire.ICRCLen
	writeOverhead  = packetOverhead + wire.RETHLen
)

// baseline is something that rows are compared with. It is plain UDP in datagrams of
// the same size, in the same place, or the Go library. Or it is a trapped call, or what
// system calls take at least. Or it is how far the processors are from each other.
type baseline struct {
	place   string
	kind    Kind
	segment int // UDP payload of a datagram
	row     Row // that the Go library does; zero: plain UDP, or a trapped call
}

// udp is the baseline of a row.
func (r Row) udp() baseline {
	where := r.Place
	if where == OneRun {
		where = OneDaemon // UDP knows no runs
	}
	if r.Kind == Bandwidth {
		return baseline{place: where, kind: Bandwidth, segment: r.MTU + packetOverhead}
	}
	return baseline{place: where, kind: r.Kind, segment: r.Size + writeOverhead}
}

// trapped is a trapped call, for all rows: it is the same everywhere.
var trapped = baseline{place: OneDaemon, kind: Call}

func (b baseline) name() string {
	if b.row != (Row{}) {
		return b.place + "/library/" + b.row.what()
	}
	switch b {
	case rung:
		return "doorbell"
	case copied:
		return "copies/" + size(callBytes)
	case accessed:
		return "accesses of 8 bytes"
	case apart:
		return "processors apart"
	}
	switch b.kind {
	case Call:
		return "trapped call"
	case Processor:
		return fmt.Sprintf("%s/udp/%dB/%s", b.place, b.segment, size(callBytes))
	case Latency:
		return fmt.Sprintf("%s/udp/%dB/round-trip", b.place, b.segment)
	default:
		return fmt.Sprintf("%s/udp/%dB", b.place, b.segment)
	}
}

// measure takes about cfg.Target.
func (b baseline) measure(ctx context.Context, cfg Config, p *place) (float64, error) {
	if b.row != (Row{}) {
		return b.row.limit(ctx, cfg.Target, 0)
	}
	switch b {
	case rung:
		return ring(ctx, cfg)
	case copied:
		return copies(ctx, cfg)
	case accessed:
		return accesses(ctx, cfg)
	case apart:
		return processorsApart()
	}
	switch b.kind {
	case Call:
		return p.trap(ctx, cfg)
	case Processor:
		return b.moves(cfg, p)
	case Latency:
		rounds := int(cfg.Target / (20 * time.Microsecond))
		d, err := udpbaseline.HalfRoundTrip(b.segment, max(rounds, 1), p.from, p.to)
		return float64(d.Nanoseconds()) / 1e3, err
	case Bandwidth:
		bytes, err := stream(b.segment, cfg.Target, p.from, p.to)
		return bytes / (1 << 30), err
	default:
		bytes, err := stream(b.segment, cfg.Target, p.from, p.to)
		return bytes / float64(b.segment), err
	}
}

// stream returns bytes per second.
func stream(segment int, target time.Duration, from, to udpbaseline.End) (float64, error) {
	pair, err := udpbaseline.Between(segment, from, to)
	if err != nil {
		return 0, err
	}
	defer pair.Close()
	chunk, total, start := int64(256*pair.Message()), int64(0), time.Now()
	for time.Since(start) < target {
		if err := pair.Transfer(chunk); err != nil {
			return 0, err
		}
		total += chunk
	}
	return float64(total) / time.Since(start).Seconds(), nil
}
