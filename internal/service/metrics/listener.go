package metrics

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
)

// listener accepts any number of connections and keeps maxConnections of them. A further one
// takes the place of the oldest that is not being answered, so clients that are slow, or send nothing,
// keep nobody out.
type listener struct {
	net.Listener

	mu   sync.Mutex
	open []*conn // oldest first
}

// conn is a connection of a listener.
type conn struct {
	net.Conn
	of        *listener
	answering bool // under listener.mu
}

// Accept waits for a connection, and closes another one if there are too many.
func (l *listener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: accepted, of: l}
		if victim := l.add(c); victim != nil {
			victim.Conn.Close() //nolint:errcheck // nobody waits for it
			if victim == c {
				continue
			}
		}
		return c, nil
	}
}

// add keeps a connection. It returns the one that has to be closed for it, which is c itself if all
// others are being answered.
func (l *listener) add(c *conn) (victim *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) >= maxConnections {
		i := slices.IndexFunc(l.open, func(o *conn) bool { return !o.answering })
		if i < 0 {
			return c
		}
		victim = l.open[i]
		l.open = slices.Delete(l.open, i, i+1)
	}
	l.open = append(l.open, c)
	return victim
}

// Close closes a connection, and makes room for another one.
func (c *conn) Close() error {
	l := c.of
	l.mu.Lock()
	if i := slices.Index(l.open, c); i >= 0 {
		l.open = slices.Delete(l.open, i, i+1)
	}
	l.mu.Unlock()
	return c.Conn.Close()
}

func (c *conn) setAnswering(answering bool) {
	c.of.mu.Lock()
	c.answering = answering
	c.of.mu.Unlock()
}

type connKey struct{}

// withConn is http.Server.ConnContext.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// protected keeps the connection of a request while the handler answers.
func protected(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(*conn); ok {
			c.setAnswering(true)
			defer c.setAnswering(false)
		}
		h.ServeHTTP(w, r)
	})
}
