package proto

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
		{"rxe0=eth0,speed=25", Spec{Name: "rxe0", Interface: "eth0", Speed: 25000}, ""},
		{"rxe0=127.0.0.1,speed=2.5", Spec{Name: "rxe0", Address: v4, Speed: 2500}, ""},
		{"rxe0=eth0,speed=3", Spec{}, "choose one of 2.5, 5"},
		{"rxe0=eth0,speed=", Spec{}, "not a number"},
		{"", Spec{}, "NAME=INTERFACE"},
		{"rxe0", Spec{}, "NAME=INTERFACE"},
		{"rxe0=", Spec{}, "NAME=INTERFACE"},
		{"=eth0", Spec{}, `begin with "rxe"`},
		{"mlx4_0=eth0", Spec{}, `begin with "rxe"`},
		{"mlx5_=eth0", Spec{}, `begin with "rxe"`},
		{"mlx5_0=eth0", Spec{Name: "mlx5_0", Interface: "eth0"}, ""},
		{"mlx5_bond_0=free,like=connectx7-400g", Spec{Name: "mlx5_bond_0", Free: true, Like: "connectx7-400g"}, ""},
		{"mlx5_1=lo,like=connectx7-400g,speed=200", Spec{Name: "mlx5_1", Interface: "lo", Like: "connectx7-400g", Speed: 200000}, ""},
		{"mlx5_1=lo,speed=100", Spec{Name: "mlx5_1", Interface: "lo", Speed: 100000}, ""},
		{"mlx5_1=lo,speed=400", Spec{}, "speed=400: a port of connectx6 has no such speed: choose one of 10, 25, 40, 50, 100, 200"},
		{"mlx5_1=lo,speed=400,like=connectx5", Spec{}, "speed=400: a port of connectx5 has no such speed: choose one of 10, 25, 40, 50, 100"},
		{"mlx5_1=lo,like=connectx", Spec{}, `"connectx" is no profile: choose one of connectx5, connectx6, `},
		{"mlx5_1=lo,like=connectx6+no-uc+gids-move", Spec{Name: "mlx5_1", Interface: "lo", Like: "connectx6+no-uc+gids-move"}, ""},
		{"mlx5_1=lo,like=connectx6+no-ud", Spec{}, `connectx6: "no-ud" is no quirk: choose one of no-uc, `},
		{"mlx5_1=lo,like=", Spec{}, `"" is no profile`},
		{"mlx5_1=lo,like=connectx6,like=connectx6", Spec{}, "it has like= twice"},
		{"mlx5_1=lo,like=connectx6,numa=1", Spec{}, `"numa=1" is neither speed=GBPS nor like=PROFILE`},
		{"rxe0=lo,like=connectx6", Spec{}, "like=connectx6: rxe0 is the name of a Soft-RoCE device: name it mlx5_0"},
		{"mlx5_0/=eth0", Spec{}, `after "mlx5_"`},
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
	for _, tt := range []struct {
		devices string
		texts   []string
		want    string // the devices, or a part of the error
	}{
		{"", nil, ""},
		{"", []string{"rxe0=lo", "mlx5_0=eth0", "mlx5_0=eth1"}, "mlx5_0=eth0 has that name already: name this one mlx5_1"},
		{"", []string{"rxe0=lo", "rxe1=eth0"}, "rxe0=lo rxe1=eth0"},
		{"1", nil, "rxe0=127.0.0.1"},
		{"3", nil, "rxe0=127.0.0.1 rxe1=127.0.0.2 rxe2=127.0.0.3"},
		{"2", []string{"rxe7=127.0.0.9"}, "rxe0=127.0.0.1 rxe1=127.0.0.2 rxe7=127.0.0.9"},
		{"lo", nil, "rxe0=127.0.0.1"}, // and ::1 where there is IPv6

		{"0", nil, "--devices 0: invalid device: want a count from 1 to 32"},
		{"33", nil, "--devices 33: invalid device: want a count from 1 to 32"},
		{"-1", nil, "--devices -1: invalid device: want a count from 1 to 32"},
		{"99999999999999999999", nil, "want a count from 1 to 32"},
		{"nosuch0", nil, "--devices nosuch0: there is no interface of that name: want a count from 1 to 32, or one of lo"},
		{"32", []string{"rxe32=127.0.0.99"}, "33 devices in all are more than 32"},
		{"", make([]string, 33), "NAME=INTERFACE"},
		{"", []string{"rxe0=lo", "x"}, `--device x: invalid device "x": want NAME=INTERFACE`},
		{"", []string{"rxe0=lo", "rxe0=eth0"}, "--device rxe0=eth0: invalid device: rxe0=lo has that name already: name this one rxe1"},
		{"2", []string{"rxe1=eth0"}, "--device rxe1=eth0: invalid device: rxe1=127.0.0.2 has that name already: name this one rxe2"},
		{"", []string{"rxe0=lo", "rxe1=lo"}, "--device rxe1=lo: invalid device: rxe0=lo is on that interface already: leave one of them away"},
		{"", []string{"rxe0=::1", "rxe1=::1"}, "--device rxe1=::1: invalid device: rxe0=::1 is on that address already: take another address"},
		{"2", []string{"rxe7=127.0.0.2"}, "rxe1=127.0.0.2 is on that address already: take another one, as 127.0.0.3"},
		{"2", []string{"rxe7=lo"}, "--device rxe7=lo: invalid device: the interface has the address of rxe0=127.0.0.1: leave one of them away"},
		{"", []string{"rxe7=127.0.0.1", "rxe1=lo"}, "--device rxe1=lo: invalid device: the interface has the address of rxe7=127.0.0.1"},
	} {
		specs, err := ParseSpecs(tt.devices, tt.texts, "")
		if err != nil {
			if errors.Is(err, ErrSpec) == (tt.devices == "nosuch0") || !strings.Contains(err.Error(), tt.want) || tt.want == "" {
				t.Errorf("--devices %q %q: %v, want %q", tt.devices, tt.texts, err, tt.want)
			}
			continue
		}
		var got []string
		for _, s := range specs {
			got = append(got, s.String())
		}
		if list := strings.Join(got, " "); list != tt.want && (tt.devices != "lo" || list != tt.want+" rxe1=::1") {
			t.Errorf("--devices %q %q: %q, want %q", tt.devices, tt.texts, list, tt.want)
		}
	}
	specs, err := DefaultSpecs("")
	if err != nil || len(specs) != 1 || specs[0].Name != "rxe0" || specs[0].Interface == "" {
		t.Errorf("the default is %v, %v", specs, err)
	}
}
