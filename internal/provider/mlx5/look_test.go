package mlx5

import (
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/provider/profile"
)

// TestLook: two devices are on different buses, and each has what UCX and libibverbs match.
func TestLook(t *testing.T) {
	d := Driver{Profile: profile.ConnectX6}
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
	if a.HCAType != "MT4123" || a.HWRev != "0" || a.FWVer != profile.ConnectX6.Firmware || a.ShowsNetdev {
		t.Errorf("%+v", a)
	}
}
