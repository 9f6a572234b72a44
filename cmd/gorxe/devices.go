package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/gorxe/gorxe/verbsapi"
)

type devicesCmd struct {
	AsSeen    bool `name:"as-seen" help:"Print what programs find in /sys and /dev of the devices of gorxe run."`
	JSON      bool `name:"json" help:"Print JSON instead of text."`
	selection `embed:""`
	Socket    string `placeholder:"PATH" predictor:"file" help:"Socket of the daemon, for --as-seen (default: as for gorxe run)."`
}

// Help is the part of `gorxe devices --help` above the flags.
func (devicesCmd) Help() string {
	return `Each network interface with an address could carry one device; rxe0 is on the interface of the default route. A device uses the addresses of its interface as its GIDs. The active MTU is the largest path MTU that fits in the interface's.

With --as-seen: the attributes that programs find under gorxe run, of the devices, their ports and their parents, and the device nodes. They come from the file tree that gorxe run shows to programs. If a daemon is reachable at the socket, they are those of its devices. Otherwise, and always with --device, --devices or --speed, they are those of a daemon that is started with these flags. An attribute that programs cannot read has the errno in parentheses.

No device is started or changed.

Examples:
  gorxe devices
  gorxe devices --json
  gorxe devices --as-seen
  gorxe devices --as-seen --device rxe0=lo --speed 100
  gorxe devices --as-seen --devices 8 --json`
}

// deviceInfo is one device as --json prints it.
type deviceInfo struct {
	Name      string    `json:"name"`
	Interface string    `json:"interface"`
	NodeGUID  string    `json:"node_guid"`
	State     string    `json:"state"`
	SpeedGbps float64   `json:"speed_gbps"` // of the RDMA port
	MTU       int       `json:"mtu"`        // of the interface, bytes
	ActiveMTU int       `json:"active_mtu"` // of the RDMA port, bytes
	GIDs      []gidInfo `json:"gids"`
}

type gidInfo struct {
	Index   int    `json:"index"`
	GID     string `json:"gid"`
	Address string `json:"address"`
}

// Run lists the devices.
func (c devicesCmd) Run(std streams) error {
	if c.AsSeen {
		return c.asSeen(std.out)
	}
	if c.chosen() || c.Socket != "" {
		return usageError{errors.New("--device, --devices, --speed and --socket choose what --as-seen prints: add --as-seen")}
	}
	list, err := verbsapi.GetDeviceList()
	if err != nil {
		return err
	}
	devices := describe(list)
	if c.JSON {
		return writeJSON(std.out, devices)
	}
	if len(devices) == 0 {
		return errors.New("no network interface has a usable address")
	}
	return errors.Join(writeTable(std.out, devices), writeDefault(std.out, devices))
}

// describe lists what is known about each device, without unused GID indices.
func describe(list []*verbsapi.Device) []deviceInfo {
	devices := make([]deviceInfo, 0, len(list))
	for _, dev := range list {
		p := dev.Port()
		d := deviceInfo{
			Name:      dev.Name(),
			Interface: p.Name,
			NodeGUID:  fmt.Sprintf("%016x", dev.GUID()),
			State:     p.State.String(),
			SpeedGbps: float64(dev.Mbps()) / 1000,
			MTU:       p.MTU,
			ActiveMTU: p.ActiveMTU,
			GIDs:      []gidInfo{},
		}
		for index, gid := range p.GIDs {
			if !gid.IsZero() {
				d.GIDs = append(d.GIDs, gidInfo{Index: index, GID: gid.String(), Address: gid.Addr().String()})
			}
		}
		devices = append(devices, d)
	}
	return devices
}

// writeTable prints a line for each device, and then one for each GID.
func writeTable(w io.Writer, devices []deviceInfo) error {
	t := newTable(w)
	fmt.Fprintln(t, "DEVICE\tINTERFACE\tPORT STATE\tSPEED\tMTU\tACTIVE MTU\tNODE GUID")
	for _, d := range devices {
		fmt.Fprintf(t, "%s\t%s\t%s\t%v Gb/s\t%d\t%d\t%s\n", d.Name, d.Interface, d.State, d.SpeedGbps, d.MTU, d.ActiveMTU, d.NodeGUID)
	}
	fmt.Fprintln(t, "\nDEVICE\tINDEX\tADDRESS\tGID")
	for _, d := range devices {
		for _, g := range d.GIDs {
			fmt.Fprintf(t, "%s\t%d\t%s\t%s\n", d.Name, g.Index, g.Address, g.GID)
		}
	}
	return t.Flush()
}

// writeDefault says which of several devices gorxe run gives, and how to get others.
func writeDefault(w io.Writer, devices []deviceInfo) error {
	if len(devices) == 1 {
		return nil
	}
	first, other := devices[0], devices[1]
	_, err := fmt.Fprintf(w, "\ngorxe run gives %s alone, unless --device names others:\n  gorxe run --device %[1]s=%s --device %s=%s PROGRAM\n",
		first.Name, first.Interface, other.Name, other.Interface)
	return err
}
