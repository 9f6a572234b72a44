package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/gorxe/gorxe/verbsapi"
)

type devicesCmd struct {
	JSON bool `name:"json" help:"Print JSON instead of a table."`
}

// Help is the part of `gorxe devices --help` above the flags.
func (devicesCmd) Help() string {
	return `Each network interface with an address could carry one device; rxe0 is on the interface of the default route. Nothing is opened or changed.

A device uses the addresses of its interface as its GIDs. The active MTU is the largest path MTU that fits in the interface's.

Examples:
  gorxe devices
  gorxe devices --json`
}

// deviceInfo is one device as --json prints it.
type deviceInfo struct {
	Name      string    `json:"name"`
	Interface string    `json:"interface"`
	State     string    `json:"state"`
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
	list, err := verbsapi.GetDeviceList()
	if err != nil {
		return err
	}
	devices := describe(list)
	if c.JSON {
		enc := json.NewEncoder(std.out)
		enc.SetIndent("", "  ")
		return enc.Encode(devices)
	}
	if len(devices) == 0 {
		return errors.New("no network interface has a usable address")
	}
	return writeTable(std.out, devices)
}

// describe lists what is known about each device, without unused GID indices.
func describe(list []*verbsapi.Device) []deviceInfo {
	devices := make([]deviceInfo, 0, len(list))
	for _, dev := range list {
		p := dev.Port()
		d := deviceInfo{
			Name:      dev.Name(),
			Interface: p.Name,
			State:     p.State.String(),
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

// writeTable prints one line per GID. The first line of a device has the values that
// belong to the whole device.
func writeTable(w io.Writer, devices []deviceInfo) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "DEVICE\tINTERFACE\tPORT STATE\tMTU\tACTIVE MTU\tINDEX\tGID\tADDRESS")
	for _, d := range devices {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t", d.Name, d.Interface, d.State, d.MTU, d.ActiveMTU)
		for i, g := range d.GIDs {
			if i > 0 {
				fmt.Fprint(t, "\t\t\t\t\t")
			}
			fmt.Fprintf(t, "%d\t%s\t%s\n", g.Index, g.GID, g.Address)
		}
	}
	return t.Flush()
}
