package verbsapi

import (
	"log/slog"

	"github.com/gorxe/gorxe/internal/cm/localcm"
	"github.com/gorxe/gorxe/internal/cm/rdmacm"
	"github.com/gorxe/gorxe/internal/engine"
	"github.com/gorxe/gorxe/internal/mgmt/gsi"
)

// cmDevice is a running device in the process's RDMA CM, through which programs connect by
// address (package verbsapi/rdmacm).
type cmDevice struct {
	manager *rdmacm.Manager
	device  rdmacm.Device
}

// joinCM joins a running device to the RDMA CM. On a host whose routes cannot be read it
// returns nil: devices work there, but nobody connects by address.
func joinCM(name string, run *engine.Engine, mux *gsi.Mux, log *slog.Logger) *cmDevice {
	manager, err := localcm.Acquire()
	if err == nil {
		c := &cmDevice{manager, rdmacm.Device{Name: name, GUID: run.Device().GUID(), Mux: mux, Net: run.PortInfo}}
		if err = manager.AddDevice(&c.device); err == nil {
			return c
		}
		localcm.Release()
	}
	if log != nil {
		log.Warn("the device has no RDMA CM", "device", name, "error", err)
	}
	return nil
}

// close comes before the end of the device, which still tells the peers.
func (c *cmDevice) close() {
	if c == nil {
		return
	}
	c.manager.RemoveDevice(&c.device)
	localcm.Release()
}
