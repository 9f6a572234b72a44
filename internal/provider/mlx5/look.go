package mlx5

import (
	"fmt"

	"github.com/gorxe/gorxe/internal/provider"
)

// Look implements provider.Driver. libibverbs finds libmlx5 by the driver's number or by the
// modalias (libibverbs/init.c: match_device). UCX takes its own path only for a device with PCI's
// numbers.
func (d Driver) Look(_ string, index int) provider.Look {
	p := &d.Profile
	vendor, device := fmt.Sprintf("0x%04x", p.VendorID), fmt.Sprintf("0x%04x", p.DeviceID)
	lanes := fmt.Sprint(p.PCIeLanes)
	return provider.Look{
		NodeDesc: p.HCAType + " " + p.String() + " gorxe",
		FWVer:    p.Firmware, HWRev: fmt.Sprintf("%x", p.HWVer), HCAType: p.HCAType, BoardID: p.BoardID,
		Parent: provider.Parent{
			Dir: pciRoot(index) + "/" + pciAddress(index), Bus: "pci", Driver: "mlx5_core",
			Attributes: map[string]string{
				"vendor": vendor, "device": device, "class": "0x020000", "revision": fmt.Sprintf("0x%02x", p.Revision),
				"subsystem_vendor": vendor, "subsystem_device": fmt.Sprintf("0x%04x", p.SubsystemID),
				"modalias": fmt.Sprintf("pci:v%08Xd%08Xsv%08Xsd%08Xbc02sc00i00", p.VendorID, p.DeviceID, p.VendorID, p.SubsystemID),

				"current_link_speed": p.PCIeSpeed, "max_link_speed": p.PCIeSpeed,
				"current_link_width": lanes, "max_link_width": lanes,
			},
		},
	}
}

// The place of an adapter on the PCI bus: each has a root of its own.
func pciRoot(index int) string    { return fmt.Sprintf("pci%04x:%02x", pciDomain, index) }
func pciAddress(index int) string { return fmt.Sprintf("%04x:%02x:00.0", pciDomain, index) }
