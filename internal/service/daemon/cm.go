package daemon

import (
	"log/slog"

	"github.com/gorxe/gorxe/internal/rdmacm"
	"github.com/gorxe/gorxe/internal/route"
)

// connManager is RDMA CM for the programs of all sessions: they share the port spaces of the
// daemon's network namespace.
type connManager struct {
	manager  *rdmacm.Manager
	resolver *route.Resolver
}

func startCM(log *slog.Logger) (*connManager, error) {
	r, err := route.New()
	if err != nil {
		return nil, err
	}
	return &connManager{rdmacm.New(rdmacm.Config{Resolver: r, Log: log}), r}, nil
}

// add makes a device available to connections.
func (c *connManager) add(d *device) error {
	d.cm = &rdmacm.Device{
		Index: d.index, Name: d.spec.Name, GUID: d.engine.Device().GUID(), Mux: d.mux, Net: d.engine.Port().Info,
	}
	return c.manager.AddDevice(d.cm)
}

// close ends all connections, whose peers hear of it. The devices must still be able to send.
func (c *connManager) close() {
	c.manager.Close()
	c.resolver.Close()
}
