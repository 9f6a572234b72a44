package metrics

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// sendBuffer is more than most answers have, so a client that does not read holds its connection up
// no longer than others.
const sendBuffer = 1 << 20

// moment is how long a connection may take to send its request before a newer one may replace it.
const moment = 200 * time.Millisecond

// listener accepts connections and keeps maxConnections of them. A further one takes the place of
// the oldest that is not being answered, so clients that are slow, or send nothing, keep nobody
// out. If all are being answered, or have just come, it waits. The kernel keeps the order of those
// that wait.
type listener struct {
	net.Listener

	mu      sync.Mutex
	changed sync.Cond // a connection, or the listener, is closed
	closed  bool
	open    []*conn // oldest first
}

func newListener(ln net.Listener) *listener {
	l := &listener{Listener: ln}
	l.changed.L = &l.mu
	return l
}

// conn is a connection of a listener.
type conn struct {
	net.Conn
	of        *listener
	since     time.Time
	answering bool // under listener.mu
}

// Accept waits for a connection, and closes another one if there are too many.
func (l *listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if tcp, ok := accepted.(*net.TCPConn); ok {
		tcp.SetWriteBuffer(sendBuffer) //nolint:errcheck // then it is smaller
	}
	c := &conn{Conn: accepted, of: l}
	victim, err := l.add(c)
	if victim != nil {
		victim.Conn.Close() //nolint:errcheck // nobody waits for it
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// add keeps a connection. It returns the one that has to be closed for it.
func (l *listener) add(c *conn) (victim *conn, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		if l.closed {
			return c, net.ErrClosed
		}
		if len(l.open) < maxConnections {
			break
		}
		if i := slices.IndexFunc(l.open, func(o *conn) bool { return !o.answering }); i >= 0 {
			left := moment - time.Since(l.open[i].since)
			if left <= 0 {
				victim = l.open[i]
				l.open = slices.Delete(l.open, i, i+1)
				break
			}
			time.AfterFunc(left, l.changed.Broadcast)
		}
		l.changed.Wait()
	}
	c.since = time.Now()
	l.open = append(l.open, c)
	return victim, nil
}

// Close ends Accept, and what waits in it.
func (l *listener) Close() error {
	l.mu.Lock()
	l.closed = true
	l.changed.Broadcast()
	l.mu.Unlock()
	return l.Listener.Close()
}

// Close closes a connection, and makes room for another one.
func (c *conn) Close() error {
	l := c.of
	l.mu.Lock()
	if i := slices.Index(l.open, c); i >= 0 {
		l.open = slices.Delete(l.open, i, i+1)
		l.changed.Broadcast()
	}
	l.mu.Unlock()
	return c.Conn.Close()
}

// setAnswering keeps a connection from giving way, until it is closed.
func (c *conn) setAnswering() {
	c.of.mu.Lock()
	c.answering = true
	c.of.mu.Unlock()
}

type connKey struct{}

// withConn is http.Server.ConnContext.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// protected keeps the connection of a request while the handler answers. A connection has one
// answer, so a client that asks again goes to the end of the line.
func protected(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		if c, ok := r.Context().Value(connKey{}).(*conn); ok {
			c.setAnswering()
		}
		h.ServeHTTP(w, r)
	})
}

// inTurn lets maxAnswers requests be answered at once. Further ones wait, in their order.
func inTurn(h http.Handler) http.Handler {
	turns := make(chan struct{}, maxAnswers)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case turns <- struct{}{}:
			defer func() { <-turns }()
			h.ServeHTTP(w, r)
		case <-r.Context().Done(): // the client is gone, or answerLimit is over
		}
	})
}
