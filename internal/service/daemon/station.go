package daemon

import (
	"github.com/gorxe/gorxe/internal/segment"
	"github.com/gorxe/gorxe/internal/segment/uplink"
)

// network is the user whose segment is that of a network interface, by its name.
type network string

// station returns what gives queue pairs for raw packets their place on an Ethernet segment. Those
// of a program that may send what it likes are on that of the network interface, if the daemon may
// do the same. The devices that another user has on this daemon are on one segment, which no other
// user reaches.
func (d *device) station(users *segment.Users) func(user any, netRaw bool) *segment.Station {
	if users == nil {
		return nil
	}
	return func(user any, netRaw bool) *segment.Station {
		if netRaw {
			if st, err := users.Station(network(d.engine.Port().Info().Name), d, d.networkStation); err == nil {
				return st
			}
		}
		st, _ := users.Station(user, d, func() (segment.Config, error) { return d.onSegment(), nil })
		return st
	}
}

// onSegment describes the device as a station.
func (d *device) onSegment() segment.Config {
	cfg := d.engine.Station()
	cfg.Counters = &d.raw
	return cfg
}

// networkStation describes the device with a way to its network.
func (d *device) networkStation() (segment.Config, error) {
	cfg := d.onSegment()
	up, err := uplink.Open(d.engine.Port().Info().Name)
	if err != nil {
		return cfg, err
	}
	cfg.Uplink = up
	return cfg, nil
}
