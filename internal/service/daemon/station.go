package daemon

import "github.com/gorxe/gorxe/internal/segment"

// station returns what gives a user's queue pairs for raw packets their place on an Ethernet
// segment. The devices that a user has on this daemon are on one segment, which no other user
// reaches.
func (d *device) station(users *segment.Users) func(user any, netRaw bool) *segment.Station {
	return func(user any, _ bool) *segment.Station {
		return users.Station(user, d, d.engine.Station)
	}
}
