package rocev2

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/gorxe/gorxe/wire"
)

// TestDescribe: a description is what the open port says.
func TestDescribe(t *testing.T) {
	for _, cfg := range []Config{
		{Address: netip.MustParseAddr("127.71.1.1")},
		{Interface: "lo", Address: netip.MustParseAddr("127.71.1.2")},
		{Interface: "lo", Port: 14791},
	} {
		cfg.Receiver = func([]wire.Datagram) {}
		p, err := Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		got, err := Describe(Config{Interface: cfg.Interface, Address: cfg.Address})
		if want := p.Info(); err != nil || !got.equal(want) || got.ActiveMTU != want.ActiveMTU {
			t.Errorf("%+v: %+v, %v; the port says %+v", cfg, got, err, want)
		}
	}
	for _, tt := range []struct {
		cfg  Config
		want error
	}{
		{Config{}, ErrConfig},
		{Config{Interface: "nosuch0"}, ErrNoInterface},
		{Config{Address: netip.MustParseAddr("192.0.2.77")}, ErrNoAddress},
	} {
		if _, err := Describe(tt.cfg); !errors.Is(err, tt.want) {
			t.Errorf("%+v: %v, want %v", tt.cfg, err, tt.want)
		}
	}
}
