package engine

import (
	"errors"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/test/leak"
	"github.com/gorxe/gorxe/rocev2"
	"github.com/gorxe/gorxe/rxe"
)

// timeout only ends a test that would otherwise hang.
const timeout = time.Minute

// TestMain fails the run if a test leaves a goroutine behind.
func TestMain(m *testing.M) {
	leak.Main(m, leak.Goroutines("gorxe/gorxe/rocev2", "engine.(*clock)"))
}

// An engine's device has its port's address, and gives the port back.
func TestStart(t *testing.T) {
	cfg := Config{Name: "rxe7", Address: netip.MustParseAddr("127.78.0.1")}
	for _, cfg.SpeedMbps = range []int{0, 200000} {
		e, err := Start(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if e.Device().Name() != "rxe7" || e.Device().GUID() != cfg.GUID() {
			t.Errorf("device %q, %#x", e.Device().Name(), e.Device().GUID())
		}
		if gid, err := e.Device().QueryGID(0); err != nil || gid.Addr() != cfg.Address {
			t.Errorf("GID 0 is %v, %v", gid, err)
		}
		if state := e.Device().QueryPort().State; state != rxe.PortActive {
			t.Errorf("port state %v", state)
		}
		if mbps := e.Device().QueryPort().Mbps; mbps != max(cfg.SpeedMbps, 40000) {
			t.Errorf("%d Mb/s, with %d asked for", mbps, cfg.SpeedMbps)
		}
		if _, err := Start(cfg); !errors.Is(err, rocev2.ErrPortTaken) {
			t.Errorf("a second engine on the address: %v", err)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Events of the port reach Config.OnEvent.
func TestEvents(t *testing.T) {
	var seen atomic.Bool
	e, err := Start(Config{
		Name: "rxe0", Address: netip.MustParseAddr("127.78.0.2"),
		OnEvent: func(ev rxe.Event) {
			if ev.Type == rxe.EventPortActive {
				seen.Store(true)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if !seen.Load() {
		t.Error("the port became active and nobody was told")
	}
}

// The clock calls at the deadline that was set last, which may be an earlier one.
func TestClock(t *testing.T) {
	c := newClock()
	if c.Now() == 0 {
		t.Error("the time is 0, which means none")
	}
	expired := make(chan rxe.Time, 1)
	c.run(func() { expired <- c.Now() })
	defer c.close()
	c.Arm(c.Now() + rxe.Time(time.Hour))
	for range 3 {
		due := c.Now() + rxe.Time(time.Millisecond)
		c.Arm(due)
		select {
		case at := <-expired:
			if at < due {
				t.Errorf("expired at %d, due at %d", at, due)
			}
		case <-time.After(timeout):
			t.Fatal("the deadline passed unnoticed")
		}
	}
}

// The clock does not follow the machine's clock when that is set.
func TestClockIsMonotonic(t *testing.T) {
	if start := newClock().start; !strings.Contains(start.String(), " m=") {
		t.Errorf("%v has no monotonic reading", start)
	}
}
