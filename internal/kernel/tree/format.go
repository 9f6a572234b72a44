package tree

import (
	"fmt"
	"strconv"
)

// Texts as drivers/infiniband/core/sysfs.c prints them; the function named is
// the kernel's there.

var stateNames = [...]string{"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"}

var physStateNames = [...]string{
	"<unknown>", "Sleep", "Polling", "Disabled", "PortConfigurationTraining",
	"LinkUp", "LinkErrorRecovery", "Phy Test",
}

func name(table []string, i uint8, unknown string) string {
	if int(i) < len(table) {
		return table[i]
	}
	return unknown
}

// state is state_show.
func (p *PortInfo) state() string {
	return fmt.Sprintf("%d: %s\n", p.State, name(stateNames[:], p.State, "UNKNOWN"))
}

// physState is phys_state_show.
func (p *PortInfo) physState() string {
	return fmt.Sprintf("%d: %s\n", p.PhysState, name(physStateNames[:], p.PhysState, "<unknown>"))
}

// linkLayer is link_layer_show.
func (p *PortInfo) linkLayer() string {
	switch p.LinkLayer {
	case 1:
		return "InfiniBand\n"
	case 2:
		return "Ethernet\n"
	default:
		return "Unknown\n"
	}
}

// speeds are the lane rates of enum ib_port_speed, in tenths of Gb/s.
var speeds = map[uint32]struct {
	name  string
	tenth int
}{
	1: {"SDR", 25}, 2: {"DDR", 50}, 4: {"QDR", 100}, 8: {"FDR10", 100},
	16: {"FDR", 140}, 32: {"EDR", 250}, 64: {"HDR", 500}, 128: {"NDR", 1000},
	256: {"XDR", 2000},
}

// widths are the lanes of enum ib_port_width.
var widths = map[uint8]int{1: 1, 2: 4, 4: 8, 8: 12, 16: 2}

// rate is rate_show: an unknown speed counts as SDR, an unknown width is an
// error.
func (p *PortInfo) rate() (string, bool) {
	lanes, ok := widths[p.ActiveWidth]
	if !ok {
		return "", false
	}
	speed, ok := speeds[p.ActiveSpeed]
	if !ok {
		speed = speeds[1]
	}
	tenths, half := speed.tenth*lanes, ""
	if tenths%10 != 0 {
		half = ".5"
	}
	return fmt.Sprintf("%d%s Gb/sec (%dX %s)\n", tenths/10, half, lanes, speed.name), true
}

// guid is node_guid_show and sys_image_guid_show.
func guid(g uint64) string {
	return fmt.Sprintf("%04x:%04x:%04x:%04x\n", g>>48, g>>32&0xffff, g>>16&0xffff, g&0xffff)
}

func decimal(v uint64) string { return strconv.FormatUint(v, 10) + "\n" }

// describe is node_desc_show: %.64s.
func describe(s string) string { return s[:min(len(s), 64)] + "\n" }
