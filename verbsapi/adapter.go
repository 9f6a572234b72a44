package verbsapi

import (
	"github.com/gorxe/gorxe/internal/engine"
	"github.com/gorxe/gorxe/internal/provider/profile"
)

// adapter is what a device looks like. The zero value is a Soft-RoCE device.
type adapter struct {
	Device string // its name, if the user gives none
	profile.Profile
}

func (c *Config) adapter() (a adapter, err error) {
	switch {
	case c.Like == "":
		return a, nil
	case c.Limits != nil:
		return a, invalid("Open", "limits", "contradicts like, which has limits")
	}
	if a.Profile, err = profile.Find(c.Like); err != nil {
		return adapter{}, invalid("Open", "like", err.Error())
	}
	a.Device = "mlx5_0"
	return a, nil
}

func (a adapter) apply(cfg *engine.Config) {
	if a.Device == "" {
		return
	}
	cfg.SpeedMbps, cfg.Limits, cfg.Quirks = a.Mbps, a.Limits(), a.Quirks
	cfg.Limits.Cap |= CapXRC
}
