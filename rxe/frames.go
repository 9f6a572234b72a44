package rxe

// Framer carries whole Ethernet frames, below the packets of a Link: for raw packet queue pairs.
type Framer interface {
	// SendFrames sends frames, each from its destination address to the end of its payload. The
	// frames are the caller's again when it returns. A frame that cannot be sent is lost. A QP may
	// be locked.
	SendFrames(frames [][]byte)
	// OnFrames says who gets the frames that arrive, in the same form; nil: nobody. They are the
	// Framer's again when receive returns. Several threads may call receive at once.
	OnFrames(receive func(frames [][]byte))
}

// FrameLink is what a Link may be.
type FrameLink interface {
	Link
	// Framer returns what carries frames, or nil if nothing does, or nothing yet.
	Framer() Framer
}

// Framer returns what carries frames on the device's link, or nil if nothing does.
func (d *Device) Framer() Framer {
	if l, ok := d.cfg.Link.(FrameLink); ok {
		return l.Framer()
	}
	return nil
}
