package engine

import (
	"cmp"
	"slices"
	"sync/atomic"

	"github.com/gorxe/gorxe/rocev2"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// PortChange is how a port appears instead of how it is.
type PortChange struct {
	Down  bool
	GIDs  []int // indexes of GIDs that it lacks
	Moved []int // indexes of GIDs that it has elsewhere
	Mbps  int   // its speed; 0: as it is
}

func (c *PortChange) apply(info rocev2.PortInfo, mbps int) (rocev2.PortInfo, int) {
	if c.Down {
		info.State = rocev2.PortState(rxe.PortDown)
	}
	if len(c.GIDs)+len(c.Moved) > 0 {
		info.GIDs = slices.Clone(info.GIDs)
	}
	for _, i := range c.GIDs {
		if i < len(info.GIDs) {
			info.GIDs[i] = wire.GID{}
		}
	}
	for _, i := range c.Moved {
		info.GIDs = moveGID(info.GIDs, i)
	}
	return info, cmp.Or(c.Mbps, mbps)
}

// moveGID moves a GID to the lowest empty index, where the kernel puts a new one
// (cache.c:find_gid). Its own index counts as taken, as if another address had come meanwhile.
func moveGID(gids []wire.GID, i int) []wire.GID {
	if i >= len(gids) || gids[i].IsZero() {
		return gids
	}
	to := slices.IndexFunc(gids, wire.GID.IsZero)
	if to < 0 {
		to = len(gids)
		gids = append(gids, wire.GID{}) // an interface has fewer addresses than the table has room
	}
	gids[to], gids[i] = gids[i], wire.GID{}
	return gids
}

// movingGIDs is the quirk of ports whose GIDs have other indexes after each loss of the link. The
// first one stays: it is the default GID. Nil: all stay.
type movingGIDs struct {
	down  bool // guarded by Engine.portMu
	flaps atomic.Uint32
}

// see counts how often the port came back.
func (m *movingGIDs) see(state rxe.PortState) {
	if m == nil {
		return
	}
	if m.down && state == rxe.PortActive {
		m.flaps.Add(1)
	}
	m.down = state == rxe.PortDown
}

// apply moves the GIDs to the next index after every other time, as if an address had come first.
// In between they have their own indexes.
func (m *movingGIDs) apply(info rocev2.PortInfo) rocev2.PortInfo {
	if m == nil || m.flaps.Load()%2 == 0 {
		return info
	}
	if len(info.GIDs) > 1 {
		info.GIDs = slices.Insert(slices.Clone(info.GIDs), 1, wire.GID{})
	}
	return info
}
