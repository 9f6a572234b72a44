package mlx5

// Profile is an adapter as programs see it. It changes names, numbers and limits, and never what
// is on the wire.
type Profile struct {
	Name               string
	VendorID, DeviceID uint16 // of PCI
	Firmware           string // major.minor.sub
	BoardID, HCAType   string
	VendorPartID       uint32
}

// ConnectX6 is a ConnectX-6 with one port of 100 Gb/s.
var ConnectX6 = Profile{
	Name: "connectx6", VendorID: 0x15b3, DeviceID: 0x101b, Firmware: "20.35.1012",
	BoardID: "MT_0000000224", HCAType: "MT4123", VendorPartID: 4123,
}
