package rdmacm

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/gorxe/gorxe/verbsapi"
)

// Config describes this end of a connection.
type Config struct {
	// PD must belong to the device that the address leads to.
	PD *verbsapi.PD
	// QP describes the queue pair: completion queues and sizes. Its type is RC. With type QPXRCIni,
	// Dial connects to a listener of ListenXRC.
	QP verbsapi.QPInitAttr
	// XRCD takes the place of PD and QP for a Request of ListenXRC: the queue pair is a target.
	XRCD *verbsapi.XRCD
	// Setup, if not nil, is called before the peer can send: it posts the first receives.
	Setup func(*verbsapi.QP) error
	// PrivateData is for the peer's program: at most 56 bytes for Dial, 196 for
	// Request.Accept.
	PrivateData []byte
	// ResponderResources and InitiatorDepth are how many READs and atomics of the peer, and
	// of this end, may be under way. 0 means 16.
	ResponderResources uint8
	InitiatorDepth     uint8
}

// These defaults are those of verbsapi.ConnectAttr.
const (
	defaultDepth    = 16
	defaultRetries  = 7
	defaultRNRTimer = 12 // 0.64 ms

	resolveTimeout = 2 * time.Second
)

func (c *Config) param() ConnParam {
	p := ConnParam{
		PrivateData: c.PrivateData, ResponderResources: c.ResponderResources, InitiatorDepth: c.InitiatorDepth,
		RetryCount: defaultRetries, RNRRetryCount: defaultRetries,
	}
	if p.ResponderResources == 0 {
		p.ResponderResources = defaultDepth
	}
	if p.InitiatorDepth == 0 {
		p.InitiatorDepth = defaultDepth
	}
	return p
}

// source returns the address to connect from. If several devices have loopback addresses,
// the connection uses the device of the domain. Otherwise the host's routes decide;
// 127.0.0.1 and ::1 are also names of devices on other interfaces.
func (c *Config) source(dst Addr) netip.AddrPort {
	ip := dst.Addr()
	if c.PD == nil || !ip.IsLoopback() || ip == netip.AddrFrom4([4]byte{127, 0, 0, 1}) || ip == netip.IPv6Loopback() {
		return netip.AddrPort{}
	}
	if own := c.PD.Context().Addr(); own.IsLoopback() && own.Is4() == dst.Addr().Is4() {
		return netip.AddrPortFrom(own, 0)
	}
	return netip.AddrPort{}
}

// prepare makes the queue pair.
func (c *Config) prepare(id *ID) error {
	id.minRNR = defaultRNRTimer
	var qp *verbsapi.QP
	var err error
	if c.XRCD != nil {
		qp, err = id.CreateTarget(c.XRCD)
	} else {
		qp, err = id.CreateQP(c.PD, c.QP)
	}
	if err != nil || c.Setup == nil {
		return err
	}
	return c.Setup(qp)
}

// Conn is an established connection.
type Conn struct {
	id      *ID
	channel *EventChannel
	data    []byte
}

// Dial connects to a service at "host:port". The queue pair is ready when it returns. If
// the peer refuses, the error is a RejectedError.
func Dial(ctx context.Context, address string, cfg Config) (*Conn, error) {
	addr, err := ResolveAddr(ctx, address)
	if err != nil {
		return nil, err
	}
	c := &Conn{channel: NewEventChannel()}
	if cfg.QP.Type == verbsapi.QPXRCIni {
		c.id, err = c.channel.CreateIDFor(cfg.QP.Type)
	} else {
		c.id, err = c.channel.CreateID(TCP)
	}
	if err != nil {
		return nil, err
	}
	if err := c.dial(ctx, addr, &cfg); err != nil {
		c.abandon()
		return nil, err
	}
	return c, nil
}

func (c *Conn) dial(ctx context.Context, addr Addr, cfg *Config) error {
	timeout := resolveTimeout
	if at, ok := ctx.Deadline(); ok {
		timeout = max(time.Until(at), time.Millisecond)
	}
	if err := c.id.ResolveAddr(cfg.source(addr), addr.AddrPort, timeout); err != nil {
		return err
	}
	if _, err := c.expect(ctx, "Dial", addr, AddrResolved); err != nil {
		return err
	}
	if err := c.id.ResolveRoute(timeout); err != nil {
		return err
	}
	if _, err := c.expect(ctx, "Dial", addr, RouteResolved); err != nil {
		return err
	}
	if err := cfg.prepare(c.id); err != nil {
		return err
	}
	if err := c.id.Connect(cfg.param()); err != nil {
		return err
	}
	ev, err := c.expect(ctx, "Dial", addr, Established)
	if err != nil {
		return err
	}
	c.data = ev.PrivateData
	return nil
}

// expect waits for an event of one type. Any other is an error.
func (c *Conn) expect(ctx context.Context, op string, peer Addr, want EventType) (*Event, error) {
	ev, err := c.channel.GetEvent(ctx)
	switch {
	case err != nil:
		return nil, opError(op, peer.String(), err)
	case ev.Type == want:
		return ev, nil
	case ev.Err() == nil:
		return nil, &OpError{Op: op, Arg: peer.String(), Why: "unexpected event " + ev.Type.String(), Err: ErrInvalid}
	default:
		return nil, opError(op, peer.String(), ev.Err())
	}
}

// abandon undoes a connection that was not established.
func (c *Conn) abandon() {
	if qp := c.id.QP(); qp != nil {
		qp.Destroy(context.Background()) //nolint:errcheck // nothing of it was used
	}
	c.channel.Destroy()
}

// QP returns the connection's queue pair.
func (c *Conn) QP() *verbsapi.QP { return c.id.QP() }

// ID returns the connection's ID. Its events are the connection's own.
func (c *Conn) ID() *ID { return c.id }

// PrivateData returns what the peer's program sent when it accepted (196 bytes) or asked
// (56 bytes). Zeros fill the rest.
func (c *Conn) PrivateData() []byte { return bytes.Clone(c.data) }

// LocalAddr returns this end's address, an Addr.
func (c *Conn) LocalAddr() Addr { return c.id.LocalAddr() }

// RemoteAddr returns the peer's address, an Addr.
func (c *Conn) RemoteAddr() Addr { return c.id.RemoteAddr() }

// Done is closed when the connection has ended: the peer or Close has ended it, or the
// device was removed. Completions from before can still be polled.
func (c *Conn) Done() <-chan struct{} { return c.id.ended }

// Close ends the connection and destroys the queue pair, after its work requests were
// flushed. The peer is told. A second Close does nothing.
func (c *Conn) Close() error {
	err := c.id.Disconnect()
	if c.ended() {
		err = nil // there is nothing to tell the peer
	}
	if qp := c.id.QP(); qp != nil {
		if e := qp.Destroy(context.Background()); !errors.Is(e, ErrClosed) {
			err = errors.Join(err, e)
		}
	}
	c.channel.Destroy()
	return err
}

func (c *Conn) ended() bool {
	select {
	case <-c.id.ended:
		return true
	default:
		return false
	}
}
