package rxe

import "github.com/gorxe/gorxe/wire"

// responseBytes is the size of a MIDDLE without payload and pad.
const responseBytes = wire.BTHLen + wire.ICRCLen

// readPacing is the size of a quantum of READ responses, and the pause between two.
// A slow peer loses packets behind the first one for which it has no room, and asks
// again from there. That shows how fast it is.
type readPacing struct {
	pause     Time // 0: no pause
	limit     int  // packets in a quantum; 0: no limit
	quanta    int  // sent since the last change
	lossDelay Time // how long the peer took to ask again
	changedAt Time // when pause and limit last changed

	streamPSN   wire.PSN // first PSN of the present, or last, stream of responses
	streamStart Time     // when that was sent

	until Time // responses go on at this time; 0: they are not paused
}

// quantum returns how many packets may be sent at once.
func (p *readPacing) quantum(mtu int) int {
	most := roundToBursts(min(readQuantumBytes/mtu, readQuantumPackets), mtu)
	if p.limit > 0 {
		most = min(most, p.limit)
	}
	return most
}

func (p *readPacing) begin(psn wire.PSN, now Time) { p.streamPSN, p.streamStart = psn, now }

// slower reacts to a peer that asks again from psn on.
func (p *readPacing) slower(psn wire.PSN, now Time) {
	p.quanta, p.changedAt, p.lossDelay = 0, now, min(now-p.streamStart, speedUpDelayMax)
	least, most := max(pauseGrowth*p.pause, readPauseMin), min(pauseGrowthMax*p.pause, readPauseMax)
	if p.pause == 0 {
		most = readPauseFirstMax
	}
	if p.limit == 0 {
		p.limit = readQuantumPackets
	}
	p.pause = least
	p.limit = max(p.limit/2, readQuantumMin)
	if taken := int(psn.Diff(p.streamPSN)); taken > readQuantumMin && now > p.streamStart {
		p.limit = max(min(p.limit, taken/takenShare), readQuantumMin)
		p.pause = max((now-p.streamStart)*Time(p.limit)/Time(taken), least/2)
	}
	p.pause = min(p.pause, most)
}

func (p *readPacing) faster() {
	if p.pause /= 2; p.pause < readPauseMin {
		p.pause, p.limit = 0, 0
	}
}

// quantumSent notes that another quantum was sent and that nothing was asked for
// again.
func (p *readPacing) quantumSent(now Time) {
	if p.quanta++; p.quanta >= speedUpQuanta && now-p.changedAt > p.lossDelay {
		p.quanta, p.changedAt = 0, now
		p.faster()
	}
}
