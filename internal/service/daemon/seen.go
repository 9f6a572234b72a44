package daemon

import (
	"fmt"
	"time"

	"github.com/gorxe/gorxe/internal/cm"
	"github.com/gorxe/gorxe/internal/engine"
	"github.com/gorxe/gorxe/internal/kernel/tree"
	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/rocev2"
	"github.com/gorxe/gorxe/wire"
)

// SeenOf returns what programs find of the devices of a daemon that is started with specs.
// It starts no device.
func SeenOf(specs []proto.Spec) ([]proto.Seen, error) {
	list := make([]tree.Device, 0, len(specs))
	for i, spec := range specs {
		dev, info, err := engine.Describe(engineConfig(spec))
		if err != nil {
			return nil, fmt.Errorf("device %v: %w", spec, err)
		}
		defer dev.Close() //nolint:errcheck // nothing was made in it
		sockets := new(rocev2.Counters)
		v := &view{spec: spec, index: i, created: time.Now(), driver: driverOf(spec, nil), dev: dev, netdev: info.Name,
			counters: func() wire.PortCounters { return engine.PortCounters(dev, sockets) },
			sockets:  func() *rocev2.Counters { return sockets },
			cm:       func() (none cm.Counters) { return none }}
		list = append(list, v.sysfs())
	}
	return tree.New(list, tree.RDMACM()).Seen(), nil
}
