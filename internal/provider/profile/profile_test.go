package profile

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
	for _, p := range profiles {
		if names[p.Name] || p.Name != strings.ToLower(p.Name) || strings.ContainsAny(p.Name, ",= ") {
			t.Errorf("the name %q", p.Name)
		}
		names[p.Name] = true
		if found, err := Find(p.Name); err != nil || found != p {
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
	if _, err := Find("connectx"); err == nil {
		t.Error("a part of a name is a profile")
	}
}

// TestQuirks: words behind a profile give and take quirks, and a name of them all says so. What is
// unknown or contradicts itself is refused with the word at fault.
func TestQuirks(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"connectx6", "connectx6"},
		{"connectx6+no-uc", "connectx6+no-uc"},
		{"connectx6+gids-move+reset-einval+no-uc", "connectx6+no-uc+reset-einval+gids-move"},
		{"connectx6+uc+reset-again+gids-stay", "connectx6"},
		{"connectx5", "connectx5+gids-move"},
		{"connectx7-400g+no-uc", "connectx7-400g+no-uc+gids-move"},
		{"connectx7-400g+gids-move", "connectx7-400g+gids-move"},
		{"connectx7-400g+gids-stay", "connectx7-400g+gids-stay"},
		{"", `"" is no profile`},
		{"+no-uc", `"" is no profile`},
		{"connectx4+no-uc", `"connectx4" is no profile: choose one of connectx5, connectx6, `},
		{"connectx6+", `connectx6: "" is no quirk`},
		{"connectx6+no-xrc", `connectx6: "no-xrc" is no quirk: choose one of no-uc, uc, reset-einval, `},
		{"connectx6+no-uc+no-uc", `connectx6: it has "no-uc" twice`},
		{"connectx6+gids-move+gids-stay", `connectx6: "gids-stay" contradicts "gids-move"`},
		{"connectx6+uc+no-uc", `connectx6: "no-uc" contradicts "uc"`},
	} {
		p, err := Find(tt.text)
		got := p.String()
		if err != nil {
			got = err.Error()
		}
		if got != tt.want && (err == nil || !strings.HasPrefix(got, tt.want)) {
			t.Errorf("%q: %s, want %s", tt.text, got, tt.want)
		}
		if again, err := Find(got); p.Name != "" && (err != nil || again != p) {
			t.Errorf("%s is found as %+v, %v, and not %+v", got, again, err, p)
		}
	}
	for _, p := range profiles {
		// 64 bytes of sysfs's node_desc, with the name of the model
		for _, q := range quirks {
			*q.of(&p.Quirks) = true
		}
		if n := len(p.HCAType + " " + p.String() + " gorxe"); n > 64 {
			t.Errorf("%s: %d bytes", p, n)
		}
	}
}
