package rdmacm

import (
	"bytes"
	"context"

	"github.com/gorxe/gorxe/verbsapi"
)

// Listener accepts connections.
type Listener struct {
	id      *ID
	channel *EventChannel
}

// Listen listens at "host:port". An empty host, a wildcard address or a loopback address
// means all devices that the program has opened, or opens later. To a loopback address,
// only programs of this host can connect. Port 0 means a free port: see Addr.
func Listen(ctx context.Context, address string) (*Listener, error) {
	return newListener(ctx, address, func(ch *EventChannel) (*ID, error) { return ch.CreateID(TCP) })
}

// ListenXRC is Listen for initiators of XRC. They ask for targets: Config.XRCD. A target has no
// receives: the private data tells the peer the numbers of SRQs.
func ListenXRC(ctx context.Context, address string) (*Listener, error) {
	return newListener(ctx, address, func(ch *EventChannel) (*ID, error) { return ch.CreateIDFor(verbsapi.QPXRCTgt) })
}

func newListener(ctx context.Context, address string, create func(*EventChannel) (*ID, error)) (*Listener, error) {
	addr, err := ResolveAddr(ctx, address)
	if err != nil {
		return nil, err
	}
	l := &Listener{channel: NewEventChannel()}
	if l.id, err = create(l.channel); err != nil {
		return nil, err
	}
	if err = l.id.Bind(addr.AddrPort); err == nil {
		err = l.id.Listen(0)
	}
	if err != nil {
		l.channel.Destroy()
		return nil, err
	}
	return l, nil
}

// Addr returns the address at which the Listener listens.
func (l *Listener) Addr() Addr { return l.id.LocalAddr() }

// Close stops listening. Goroutines in Accept get ErrClosed. Peers whose Request was not
// fetched are refused.
func (l *Listener) Close() { l.channel.Destroy() }

// Accept waits for a request for a connection. The caller then calls the Request's Accept
// or Reject.
func (l *Listener) Accept(ctx context.Context) (*Request, error) {
	for {
		ev, err := l.channel.GetEvent(ctx)
		if err != nil {
			return nil, err
		}
		if ev.Type != ConnectRequest {
			continue // of a Request that was not answered
		}
		r := &Request{Conn{id: ev.ID, channel: NewEventChannel(), data: ev.PrivateData}}
		if err := ev.ID.Migrate(r.conn.channel); err != nil {
			return nil, err
		}
		return r, nil
	}
}

// Request is a peer's request for a connection.
type Request struct{ conn Conn }

// PrivateData returns what the peer's program sent, followed by zeros: 56 bytes.
func (r *Request) PrivateData() []byte { return bytes.Clone(r.conn.data) }

// LocalAddr returns the address that the peer has asked for, an Addr.
func (r *Request) LocalAddr() Addr { return r.conn.LocalAddr() }

// RemoteAddr returns the peer's address, an Addr.
func (r *Request) RemoteAddr() Addr { return r.conn.RemoteAddr() }

// DeviceGUID returns the node GUID of the device through which the peer asks. The domain of
// the queue pair must be of that device.
func (r *Request) DeviceGUID() uint64 {
	guid, _ := r.conn.id.DeviceGUID()
	return guid
}

// Accept makes a queue pair and accepts the request. It returns when the peer is ready
// too. If Accept fails, it refuses the request.
func (r *Request) Accept(ctx context.Context, cfg Config) (*Conn, error) {
	c := &r.conn
	err := cfg.prepare(c.id)
	if err == nil {
		err = c.id.Accept(cfg.param())
	}
	if err == nil {
		_, err = c.expect(ctx, "Accept", c.RemoteAddr(), Established)
	}
	if err != nil {
		c.abandon()
		return nil, err
	}
	return c, nil
}

// Reject refuses the request. privateData tells the peer's program why: at most 148
// bytes.
func (r *Request) Reject(privateData []byte) error {
	err := r.conn.id.Reject(privateData)
	r.conn.channel.Destroy()
	return err
}
