package daemon

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func TestParseSpec(t *testing.T) {
	v4 := netip.MustParseAddr("127.0.0.1")
	v6 := netip.MustParseAddr("fe80::1%eth0")
	tests := []struct {
		text string
		want Spec
		err  string // a part of it
	}{
		{"rxe0=eth0", Spec{Name: "rxe0", Interface: "eth0"}, ""},
		{"rxe_test-1.a=lo", Spec{Name: "rxe_test-1.a", Interface: "lo"}, ""},
		{"rxe=127.0.0.1", Spec{Name: "rxe", Address: v4}, ""},
		{"rxe0=::ffff:127.0.0.1", Spec{Name: "rxe0", Address: v4}, ""},
		{"rxe1=fe80::1%eth0", Spec{Name: "rxe1", Address: v6}, ""},
		{"", Spec{}, "NAME=INTERFACE"},
		{"rxe0", Spec{}, "NAME=INTERFACE"},
		{"rxe0=", Spec{}, "NAME=INTERFACE"},
		{"=eth0", Spec{}, `begin with "rxe"`},
		{"mlx5_0=eth0", Spec{}, `begin with "rxe"`},
		{"rxe/0=eth0", Spec{}, "letters"},
		{"rxe\n=eth0", Spec{}, "letters"},
		{"rxe" + strings.Repeat("x", 61) + "=lo", Spec{}, "longer than 63"},
		{"rxe0=eth/0", Spec{}, "neither"},
		{"rxe0=1.2.3.4.5.6.7.8.9", Spec{}, "neither"},
	}
	for _, tt := range tests {
		got, err := ParseSpec(tt.text)
		switch {
		case tt.err == "" && (err != nil || got != tt.want):
			t.Errorf("%q: %+v, %v; want %+v", tt.text, got, err, tt.want)
		case tt.err != "" && (!errors.Is(err, ErrSpec) || !strings.Contains(err.Error(), tt.err)):
			t.Errorf("%q: %v, want %q in it", tt.text, err, tt.err)
		}
		if again, err := ParseSpec(got.String()); tt.err == "" && (err != nil || again != got) {
			t.Errorf("%v is read as %+v, %v", got, again, err)
		}
	}
}

func TestParseSpecs(t *testing.T) {
	for _, bad := range [][]string{
		{"rxe0=lo", "rxe0=eth0"}, {"rxe0=lo", "rxe1=lo"}, {"rxe0=::1", "rxe1=::1"}, {"rxe0=lo", "x"}, make([]string, 33),
	} {
		if specs, err := ParseSpecs(bad); !errors.Is(err, ErrSpec) {
			t.Errorf("%q: %v, %v", bad, specs, err)
		}
	}
	specs, err := ParseSpecs(nil)
	if err != nil || len(specs) != 1 || specs[0].Name != "rxe0" || specs[0].Interface == "" {
		t.Errorf("the default is %v, %v", specs, err)
	}
}
