package daemon

import (
	"github.com/gorxe/gorxe/internal/segment"
	"github.com/gorxe/gorxe/internal/segment/uplink"
)

// segments returns what makes the Ethernet segments of users.
func (s *Server) segments() *segment.Users {
	u := new(segment.Users)
	if s.tap != nil {
		u.Tap = s.tap
	}
	return u
}

// network is the user whose segment is that of a network interface, by its name.
type network string

// station returns what gives queue pairs for raw packets their place on an Ethernet segment. Those
// of a program that may send what it likes are on that of the network interface, if the daemon may
// do the same. The devices that another user has on this daemon are on one segment, which no other
// user reaches.
func (d *device) station(users *segment.Users) func(user any, netRaw bool) *segment.Station {
	return func(user any, netRaw bool) *segment.Station {
		if netRaw {
			if up, err := uplink.Open(d.engine.Port().Info().Name); err == nil {
				return d.networkStation(users, up)
			}
		}
		return users.Station(user, d, d.engine.Station)
	}
}

// networkStation returns the station with a way to the network. It closes up if there is one
// already.
func (d *device) networkStation(users *segment.Users, up *uplink.Uplink) *segment.Station {
	used := false
	st := users.Station(network(d.engine.Port().Info().Name), d, func() segment.Config {
		used = true
		cfg := d.engine.Station()
		cfg.Uplink = up
		return cfg
	})
	if !used {
		up.Close()
	}
	return st
}
