package engine

import (
	"github.com/gorxe/gorxe/rocev2"
	"github.com/gorxe/gorxe/rxe"
)

// Describe returns the device that Start starts with cfg, and its port, for a caller that
// only reads attributes. No packet leaves the device or reaches it. The caller closes it.
func Describe(cfg Config) (*rxe.Device, rocev2.PortInfo, error) {
	info, err := rocev2.Describe(rocev2.Config{Interface: cfg.Interface, Address: cfg.Address, Port: cfg.Port})
	if err != nil {
		return nil, info, err
	}
	dev, err := rxe.New(rxe.Config{
		Name: cfg.Name, GUID: cfg.GUID(), Link: new(portLink), Clock: newClock(), Limits: cfg.Limits, Quirks: cfg.Quirks,
	})
	if err != nil {
		return nil, info, err
	}
	setPort(dev, info, cfg.SpeedMbps)
	return dev, info, nil
}
