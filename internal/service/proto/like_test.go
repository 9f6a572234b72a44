package proto

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestLike: --like names devices, gives them the profile unless they have one of their own, and
// leaves those of rxe alone.
func TestLike(t *testing.T) {
	for _, tt := range []struct {
		devices string
		texts   []string
		speed   Speed
		want    string // the devices, or a part of the error
	}{
		{"2", nil, 0, "[mlx5_0=127.0.0.1,like=bluefield3 mlx5_1=127.0.0.2,like=bluefield3]"},
		{"", []string{"rxe0=lo", "mlx5_7=eth0", "mlx5_8=eth1,like=connectx5"}, 0, "[rxe0=lo mlx5_7=eth0,like=bluefield3 mlx5_8=eth1,like=connectx5]"},
		{"1", []string{"mlx5_0=127.0.0.9"}, 0, "name this one mlx5_1"},
		{"", []string{"rxe0=lo"}, 0, "--like bluefield3: invalid device: no device has the name of a ConnectX"},
		{"", []string{"mlx5_0=lo", "mlx5_1=eth0,like=connectx7-400g"}, 400000, "--device mlx5_0=lo,speed=400,like=bluefield3: invalid device: speed=400: a port of bluefield3 has no such speed"},
		{"", nil, 400000, "--like bluefield3: invalid device: speed=400: a port of bluefield3 has no such speed"},
		{"", nil, 200000, "[]"},
	} {
		specs, err := ParseSpecs(tt.devices, tt.texts, "bluefield3")
		if err == nil {
			err = Agree(specs, tt.speed, "bluefield3")
		}
		got := fmt.Sprint(specs)
		if err != nil {
			if got = err.Error(); !errors.Is(err, ErrSpec) {
				t.Errorf("%v is no ErrSpec", err)
			}
		}
		if !strings.Contains(got, tt.want) {
			t.Errorf("--devices %q %q --speed %v: %s, want %s", tt.devices, tt.texts, tt.speed, got, tt.want)
		}
	}
	if specs, err := DefaultSpecs("connectx5"); err != nil || len(specs) != 1 || specs[0].Name != "mlx5_0" || specs[0].Like != "connectx5" {
		t.Errorf("the default is %v, %v", specs, err)
	}
	for devices, want := range map[string]string{"": "[mlx5_0=free]", "2": "[mlx5_0=free mlx5_1=free]"} {
		if _, texts := FreePlaces(devices, nil, "connectx5"); fmt.Sprint(texts) != want {
			t.Errorf("--private --devices %q: %s, want %s", devices, texts, want)
		}
	}
}

// TestLikeSuits: a run takes a daemon's device if its profile is the one that the run wants.
func TestLikeSuits(t *testing.T) {
	spec := func(text string) Spec {
		s, err := ParseSpec(text)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, tt := range []struct {
		wants, has string
		want       bool
	}{
		{"mlx5_0=lo", "mlx5_0=lo,like=connectx5", true},
		{"mlx5_0=lo,like=connectx5", "mlx5_0=lo,like=connectx5", true},
		{"mlx5_0=lo,like=connectx6", "mlx5_0=lo", true}, // the default
		{"mlx5_0=lo,like=connectx5", "mlx5_0=lo,like=connectx6", false},
		{"rxe0=lo", "mlx5_0=lo,like=connectx6", false},
		{"mlx5_0=lo,like=connectx6+no-uc", "mlx5_0=lo", false},
		{"mlx5_0=lo,like=connectx6", "mlx5_0=lo,like=connectx6+no-uc", false},
		{"mlx5_0=lo", "mlx5_0=lo,like=connectx6+no-uc", true},
		{"mlx5_0=lo,like=connectx5+gids-move", "mlx5_0=lo,like=connectx5", true},
	} {
		if got := spec(tt.wants).Suits(spec(tt.has)); got != tt.want {
			t.Errorf("%s suits a run that wants %s: %v", tt.has, tt.wants, got)
		}
	}
	if Like("connectx6").In([]Spec{spec("rxe0=lo")}) || !Like("").In(nil) || !Like("connectx6").In([]Spec{spec("rxe0=lo"), spec("mlx5_0=eth0")}) {
		t.Error("In")
	}
}
