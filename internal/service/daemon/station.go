package daemon

import (
	"os"

	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/segment"
	"github.com/gorxe/gorxe/internal/segment/joint"
	"github.com/gorxe/gorxe/internal/segment/uplink"
)

// network is the user whose segment is that of a network interface, by its name.
type network string

// joined is the user whose segment is joined to those of other daemons.
type joined struct{}

// join joins the segment of this daemon's user to those of other daemons, if that is wanted. That
// user pays.
func (s *Server) join(u *segment.Users) (err error) {
	if s.cfg.Segment == "" {
		return nil
	}
	owner, err := s.tenants.Greet(uint32(os.Geteuid()))
	if err != nil {
		return err
	}
	if s.joint, err = joint.Open(s.cfg.Segment, u.Keep(joined{}), owner.Budget, s.log); err != nil {
		owner.Dismiss()
		return err
	}
	s.joiner = owner
	return nil
}

// part undoes join.
func (s *Server) part() {
	if s.joint != nil {
		s.joint.Close()
		s.joiner.Dismiss()
	}
}

// segmentOf returns the user of Users whose segment has the programs of a user of this daemon.
func (s *Server) segmentOf(user any) any {
	if b, ok := user.(*quota.Budget); ok && s.joint != nil && s.tenants.Is(uint32(os.Geteuid()), b) {
		return joined{}
	}
	return user
}

// station returns what gives queue pairs for raw packets their place on an Ethernet segment. Those
// of a program that may send what it likes are on that of the network interface, if the daemon may
// do the same. The devices that another user has on this daemon are on one segment, which no other
// user reaches. of, if not nil, is segmentOf.
func (d *device) station(users *segment.Users, of func(user any) any) func(user any, netRaw bool) *segment.Station {
	if users == nil {
		return nil
	}
	return func(user any, netRaw bool) *segment.Station {
		if netRaw {
			if st, err := users.Station(network(d.engine.Port().Info().Name), d, d.networkStation); err == nil {
				return st
			}
		}
		if of != nil {
			user = of(user)
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
