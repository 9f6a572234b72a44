package mlx5

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/rxe"
)

// TestProfiles: the numbers of each profile agree with each other, and the engine has its limits
// and speeds.
func TestProfiles(t *testing.T) {
	names := make(map[string]bool)
	firmware := regexp.MustCompile(`^[0-9]{2}\.[0-9]{2}\.[0-9]{4}$`)
	// The kernel's first number of a firmware's version names the kind of adapter.
	major := map[uint32]string{4119: "16.", 4123: "20.", 4125: "22.", 4129: "28.", 41692: "32."}
	for _, p := range Profiles() {
		if names[p.Name] || p.Name != strings.ToLower(p.Name) || strings.ContainsAny(p.Name, ",= ") {
			t.Errorf("the name %q", p.Name)
		}
		names[p.Name] = true
		if found, ok := FindProfile(p.Name); !ok || found != p {
			t.Errorf("%s is found as %+v", p.Name, found)
		}
		// mlx5_ib makes both names of PCI's number (main.c: hca_type_show, mlx5_ib_query_device).
		if p.HCAType != fmt.Sprint("MT", p.DeviceID) || p.VendorPartID != uint32(p.DeviceID) {
			t.Errorf("%s: %s and part %d for device %d", p.Name, p.HCAType, p.VendorPartID, p.DeviceID)
		}
		if !firmware.MatchString(p.Firmware) || !strings.HasPrefix(p.Firmware, major[p.VendorPartID]) || len(p.BoardID) != 13 {
			t.Errorf("%s: firmware %s, board %s", p.Name, p.Firmware, p.BoardID)
		}
		speeds := p.Speeds()
		if len(speeds) == 0 || speeds[len(speeds)-1] != p.Mbps || !slices.IsSorted(speeds) {
			t.Errorf("%s: speeds %v", p.Name, speeds)
		}
		for _, mbps := range speeds {
			if rxe.LinkSpeedFor(mbps).Mbps != mbps {
				t.Errorf("%s: no port has %d Mb/s", p.Name, mbps)
			}
		}
		l := p.Limits()
		if l.VendorID != 0x02c9 || l.VendorPartID != p.VendorPartID || l.HWVer != p.HWVer || l.FWVer != p.Firmware {
			t.Errorf("%s: %+v", p.Name, l)
		}
		if l.MaxQPWR != 32768 || l.MaxQP > 1<<20 || l.Cap&rxe.CapAtomicWrite != 0 {
			t.Errorf("%s: %+v", p.Name, l)
		}
	}
	if _, ok := FindProfile("connectx"); ok {
		t.Error("a part of a name is a profile")
	}
}

// TestLook: two devices are on different buses, and each has what UCX and libibverbs match.
func TestLook(t *testing.T) {
	d := Driver{Profile: ConnectX6}
	a, b := d.Look("mlx5_0", 0), d.Look("mlx5_1", 31)
	if a.Parent.Dir != "pcife00:00/fe00:00:00.0" || b.Parent.Dir != "pcife00:1f/fe00:1f:00.0" {
		t.Errorf("at %s and %s", a.Parent.Dir, b.Parent.Dir)
	}
	want := "pci:v000015B3d0000101Bsv000015B3sd00000006bc02sc00i00"
	if got := a.Parent.Attributes["modalias"]; got != want {
		t.Errorf("modalias %s, want %s", got, want)
	}
	for name, value := range a.Parent.Attributes {
		if value == "" || strings.HasSuffix(value, "\n") {
			t.Errorf("%s: %q", name, value)
		}
	}
	if a.HCAType != "MT4123" || a.HWRev != "0" || a.FWVer != ConnectX6.Firmware || a.ShowsNetdev {
		t.Errorf("%+v", a)
	}
}
