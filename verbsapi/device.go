package verbsapi

import (
	"strconv"

	"github.com/gorxe/gorxe/rocev2"
	"github.com/gorxe/gorxe/rxe"
)

// Device is a device that can be opened (struct ibv_device): a network interface
// as the port of a RoCE adapter.
type Device struct {
	name string
	guid uint64
	info rocev2.PortInfo
	cfg  Config
}

// GetDeviceList returns a device for every interface that has an address
// (ibv_get_device_list): rxe0 is the one of the default route, the others follow
// in the order of the interface index. The list needs no freeing.
func GetDeviceList() ([]*Device, error) {
	ports, err := rocev2.Interfaces()
	if err != nil {
		return nil, err
	}
	first, err := rocev2.DefaultInterface()
	if err != nil {
		return nil, err
	}
	var list []*Device
	add := func(info rocev2.PortInfo) {
		if len(info.GIDs) == 0 {
			return
		}
		cfg := Config{Name: "rxe" + strconv.Itoa(len(list)), Interface: info.Name}
		list = append(list, &Device{name: cfg.Name, guid: cfg.guid(), info: info, cfg: cfg})
	}
	for _, p := range ports {
		if p.Name == first {
			add(p)
		}
	}
	for _, p := range ports {
		if p.Name != first {
			add(p)
		}
	}
	return list, nil
}

// OpenDevice opens a device of the list (ibv_open_device).
func OpenDevice(d *Device) (*Context, error) {
	if d == nil {
		return nil, invalid("OpenDevice", "device", "is nil")
	}
	return Open(d.cfg)
}

// Name is the device's name, "rxe0" (ibv_get_device_name).
func (d *Device) Name() string { return d.name }

// GUID is the node GUID in host order (ibv_get_device_guid).
func (d *Device) GUID() uint64 { return d.guid }

// Index is the interface index of the device's port (ibv_get_device_index).
func (d *Device) Index() int { return d.info.Index }

// Mbps is the speed that the port has when the device is open, in Mbit/s.
func (d *Device) Mbps() int { return rxe.LinkSpeedFor(d.info.SpeedMbps).Mbps }

// NodeType is NodeCA.
func (d *Device) NodeType() NodeType { return NodeCA }

// TransportType is TransportIB.
func (d *Device) TransportType() TransportType { return TransportIB }

// Port describes the device's port when the list was made, or when the device
// was opened.
func (d *Device) Port() rocev2.PortInfo { return d.info }
