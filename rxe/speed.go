package rxe

// LinkSpeed is the rate of a port in the terms of verbs: lanes of one rate each.
type LinkSpeed struct {
	Mbps  int    // of all lanes
	Width uint8  // enum ib_port_width: 1, 2, 4, 8, 16 for 1X, 4X, 8X, 12X, 2X
	Lane  uint32 // enum ib_port_speed: 1 SDR, 2 DDR, 4 QDR, 8 FDR10 … 256 XDR
}

// Codes of enum ib_port_width and enum ib_port_speed (include/rdma/ib_verbs.h).
const (
	width1X  = 1
	width4X  = 2
	width8X  = 4
	width12X = 8
	width2X  = 16

	laneSDR   = 1
	laneDDR   = 2
	laneFDR10 = 8
	laneFDR   = 16
	laneEDR   = 32
	laneHDR   = 64
	laneNDR   = 128
	laneXDR   = 256
)

// linkSpeeds are the rates that a port can have, ascending. One rate may be had in
// several ways: where Linux has to choose for an Ethernet port, this is its choice
// (drivers/infiniband/core/verbs.c: ib_get_width_and_speed).
var linkSpeeds = [...]LinkSpeed{
	{2500, width1X, laneSDR},
	{5000, width1X, laneDDR},
	{10000, width1X, laneFDR10},
	{14000, width1X, laneFDR},
	{20000, width4X, laneDDR},
	{25000, width1X, laneEDR},
	{28000, width2X, laneFDR},
	{30000, width12X, laneSDR},
	{40000, width4X, laneFDR10},
	{50000, width1X, laneHDR},
	{56000, width4X, laneFDR},
	{60000, width12X, laneDDR},
	{80000, width8X, laneFDR10},
	{100000, width4X, laneEDR},
	{112000, width8X, laneFDR},
	{120000, width12X, laneFDR10},
	{168000, width12X, laneFDR},
	{200000, width4X, laneHDR},
	{300000, width12X, laneEDR},
	{400000, width4X, laneNDR},
	{600000, width12X, laneHDR},
	{800000, width4X, laneXDR},
	{1200000, width12X, laneNDR},
	{1600000, width8X, laneXDR},
	{2400000, width12X, laneXDR},
}

// LinkSpeeds lists the rates that a port can have, ascending.
func LinkSpeeds() []LinkSpeed { return append([]LinkSpeed(nil), linkSpeeds[:]...) }

// LinkSpeedFor returns the lowest rate that is not below mbps, or the highest one.
// So Ethernet's 1 Gb/s becomes 2.5 Gb/s, as in Linux.
func LinkSpeedFor(mbps int) LinkSpeed {
	for _, s := range linkSpeeds {
		if s.Mbps >= mbps {
			return s
		}
	}
	return linkSpeeds[len(linkSpeeds)-1]
}

// legacyLane returns the code for a field of 8 bits, which has no XDR
// (drivers/infiniband/core/uverbs_cmd.c: copy_port_attr_to_resp).
func (s LinkSpeed) legacyLane() uint8 { return uint8(min(s.Lane, laneNDR)) }
