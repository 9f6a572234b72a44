package cm

import "github.com/gorxe/gorxe/rxe"

// Listener receives the requests for a service.
type Listener struct {
	m       *Machine
	service uint64
	handle  func(now rxe.Time, c *Conn, req *Request) Verdict
}

// Listen makes a listener for a service ID. It calls handle with each REQ and SIDR_REQ
// for the service, except for duplicates. The error is ErrInUse or ErrClosed.
func (m *Machine) Listen(service uint64, handle func(now rxe.Time, c *Conn, req *Request) Verdict) (*Listener, error) {
	if m.closed {
		return nil, ErrClosed
	}
	if m.listeners[service] != nil {
		return nil, ErrInUse
	}
	l := &Listener{m: m, service: service, handle: handle}
	m.listeners[service] = l
	return l, nil
}

// Close ends the listener. Connections that its handler took are not affected.
func (l *Listener) Close() {
	if l.m.listeners[l.service] == l {
		delete(l.m.listeners, l.service)
	}
}
