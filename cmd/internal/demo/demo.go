// Package demo shows two RoCEv2 devices at work. They exchange data over real UDP between
// two addresses of this host. The package verifies every byte and then measures the link.
// It uses the verbs as any program would.
//
// The run has two phases, each with its own devices. verify.go does each operation at sizes
// around the path MTU, with a packet capture. measure.go repeats them without a capture,
// which would distort the figures.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/gorxe/gorxe/rocev2"
)

// errMismatch: an operation completed and the data is not what it should be.
var errMismatch = errors.New("data mismatch")

// ErrConfig: a field of Config is invalid.
var ErrConfig = errors.New("invalid demo configuration")

// maxSize bounds the message sizes of the demo, in bytes.
const maxSize = 64 << 20

// Config says what to run.
type Config struct {
	// Addresses of this host; each becomes a device.
	Addresses [2]netip.Addr
	// UDPPort is the port of both devices; 0 is RoCEv2's own, 4791.
	UDPPort uint16
	// Duration of each measurement.
	Duration time.Duration
	// Sizes of the messages whose bandwidth is measured, in bytes.
	Sizes []int
	// Capture is the pcapng file to write; empty: none.
	Capture string
	// Out gets the report.
	Out io.Writer
	// Terminal, if set, gets a progress line that is overwritten in place.
	Terminal io.Writer
}

func (c *Config) check() error {
	for _, a := range c.Addresses {
		if !a.IsValid() {
			return fmt.Errorf("%w: two addresses are needed", ErrConfig)
		}
	}
	if c.Addresses[0] == c.Addresses[1] {
		return fmt.Errorf("%w: the addresses are the same, %v", ErrConfig, c.Addresses[0])
	}
	if c.Addresses[0].Is4() != c.Addresses[1].Is4() {
		return fmt.Errorf("%w: %v and %v are of different IP versions", ErrConfig, c.Addresses[0], c.Addresses[1])
	}
	if c.Duration <= 0 {
		return fmt.Errorf("%w: duration %v is not positive", ErrConfig, c.Duration)
	}
	for _, size := range c.Sizes {
		if size < 1 || size > maxSize {
			return fmt.Errorf("%w: size %d is not in 1 to %d bytes", ErrConfig, size, maxSize)
		}
	}
	return nil
}

// Run runs the demo. Errors unwrap to ErrConfig (nothing was done), to
// errMismatch, or to what the device said.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.check(); err != nil {
		return err
	}
	r := &reporter{out: cfg.Out, terminal: cfg.Terminal}
	r.printf("Two RoCEv2 devices, %v and %v, over UDP.\n\n", cfg.Addresses[0], cfg.Addresses[1])
	if err := verifyPhase(ctx, &cfg, r); err != nil {
		r.clearProgress()
		return fmt.Errorf("verify: %w", err)
	}
	if err := measurePhase(ctx, &cfg, r); err != nil {
		r.clearProgress()
		return fmt.Errorf("measure: %w", err)
	}
	if cfg.Capture != "" {
		r.printf("\nThe verified packets are in %s; Wireshark and tshark open it.\n", cfg.Capture)
	}
	return nil
}

func verifyPhase(ctx context.Context, cfg *Config, r *reporter) (err error) {
	var tap *rocev2.Tap
	if cfg.Capture != "" {
		// Traffic between two addresses of one host passes the loopback interface.
		if tap, err = rocev2.OpenTap(cfg.Capture, "lo"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, tap.Close()) }()
	}
	p, err := openPair(cfg, verifyBuffer, tap)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	return verify(ctx, p, r)
}

func measurePhase(ctx context.Context, cfg *Config, r *reporter) (err error) {
	buffer := latencySize
	for _, size := range cfg.Sizes {
		buffer = max(buffer, size)
	}
	p, err := openPair(cfg, buffer, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	return measure(ctx, p, cfg, r)
}
