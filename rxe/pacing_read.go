package rxe

import (
	"time"

	"github.com/gorxe/gorxe/wire"
)

const (
	readQuantumBytes   = 256 << 10 // READ responses per portion, at most
	readQuantumPackets = 1024      // likewise
	readQuantumMin     = 16        // packets in the smallest portion
	readPauseMin       = Time(20 * time.Microsecond)
	readPauseFirstMax  = Time(time.Millisecond) // at most after a first loss
	readPauseMax       = Time(5 * time.Millisecond)

	// Responses come faster after as many portions that nothing was lost of, and
	// after as long as the peer took to say that something was, or that long.
	speedUpQuanta   = 8
	speedUpDelayMax = Time(50 * time.Millisecond)

	// responseBytes is what a MIDDLE has besides payload and pad.
	responseBytes = wire.BTHLen + wire.ICRCLen
)

// readPacing is the size of the portions of READ responses, and the pause between
// them. A slow peer loses what comes behind the first packet that it has no room
// for, and asks again from there, which says how fast it is.
type readPacing struct {
	until     Time // responses go on at this time; 0: they are not paused
	pause     Time // 0: no pause
	limit     int  // packets in a portion; 0: as many as may be
	quanta    int  // portions since the last change
	lossDelay Time // that the peer took to ask again
	changedAt Time // of the last change

	streamPSN   wire.PSN // the stream of responses that goes out, or went out last: its first
	streamStart Time     // and when that was sent
}

// quantum is how many packets go out at once.
func (p *readPacing) quantum(mtu int) int {
	most := roundToBursts(min(readQuantumBytes/mtu, readQuantumPackets), mtu)
	if p.limit > 0 {
		most = min(most, p.limit)
	}
	return most
}

func (p *readPacing) begin(psn wire.PSN, now Time) { p.streamPSN, p.streamStart = psn, now }

// slower is for a peer that asks again from psn on.
func (p *readPacing) slower(psn wire.PSN, now Time) {
	p.quanta, p.changedAt, p.lossDelay = 0, now, min(now-p.streamStart, speedUpDelayMax)
	least, most := max(4*p.pause, readPauseMin), min(8*p.pause, readPauseMax)
	if p.pause == 0 {
		most = readPauseFirstMax
	}
	if p.limit == 0 {
		p.limit = readQuantumPackets
	}
	p.pause = least
	p.limit = max(p.limit/2, readQuantumMin)
	if taken := int(psn.Diff(p.streamPSN)); taken > readQuantumMin && now > p.streamStart {
		p.limit = max(min(p.limit, taken/4), readQuantumMin)
		p.pause = max((now-p.streamStart)*Time(p.limit)/Time(taken), least/2)
	}
	p.pause = min(p.pause, most)
}

func (p *readPacing) faster() {
	if p.pause /= 2; p.pause < readPauseMin {
		p.pause, p.limit = 0, 0
	}
}

// quantumSent is that another portion went out, and nothing was asked for again.
func (p *readPacing) quantumSent(now Time) {
	if p.quanta++; p.quanta >= speedUpQuanta && now-p.changedAt > p.lossDelay {
		p.quanta, p.changedAt = 0, now
		p.faster()
	}
}
