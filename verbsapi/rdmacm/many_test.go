package rdmacm

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/gorxe/gorxe/internal/cm/localcm"
	"github.com/gorxe/gorxe/internal/cm/rdmacm"
	"github.com/gorxe/gorxe/internal/test/leak"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/verbsapi"
)

// held is what connections take of the process.
type held struct {
	cm                rdmacm.Usage
	files, goroutines int
}

func holding(t testing.TB, m *rdmacm.Manager) held {
	t.Helper()
	return held{m.Usage(), len(leak.OpenFiles()), leak.Running("gorxe/verbsapi", "gorxe/internal/cm")}
}

// connectMany dials n connections at once from b to a. Both ends are in use when it returns.
func connectMany(t testing.TB, l *Listener, n int, a, b *host) (clients, servers []*Conn) {
	t.Helper()
	ctx := testContext(t)
	type end struct {
		conn   *Conn
		server bool
		err    error
	}
	ends := make(chan end)
	for range n {
		go func() {
			c, err := Dial(ctx, l.Addr().String(), Config{PD: b.pd, QP: b.init()})
			ends <- end{c, false, err}
		}()
		go func() {
			r, err := l.Accept(ctx)
			if err != nil {
				ends <- end{nil, true, err}
				return
			}
			c, err := r.Accept(ctx, Config{PD: a.pd, QP: a.init(), Setup: func(qp *verbsapi.QP) error {
				_, err := qp.PostRecv([]verbsapi.RecvWR{{ID: 7}})
				return err
			}})
			ends <- end{c, true, err}
		}()
	}
	for range 2 * n {
		e := <-ends
		switch {
		case e.err != nil:
			t.Error(e.err)
		case e.server:
			servers = append(servers, e.conn)
		default:
			clients = append(clients, e.conn)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
	return clients, servers
}

// passMessages sends an empty message over each connection.
func passMessages(t testing.TB, a, b *host, clients []*Conn) {
	t.Helper()
	for _, c := range clients {
		_, err := c.QP().PostSend([]verbsapi.SendWR{{ID: 8, Op: verbsapi.WRSend}})
		must.OK(t, err)
		b.expect(8)
		a.expect(7)
	}
}

// closeMany ends connections from the client's end.
func closeMany(t testing.TB, clients, servers []*Conn) {
	t.Helper()
	for _, c := range clients {
		must.OK(t, c.Close())
	}
	for _, s := range servers {
		<-s.Done()
		must.OK(t, s.Close())
	}
}

// TestManyConnections: 200 connections at a time, twice, and nothing of them is left.
func TestManyConnections(t *testing.T) {
	const n = 200
	a, b := newHost(t), newHost(t)
	l := listen(t, a.at(0).String())
	m, err := localcm.Acquire()
	must.OK(t, err)
	defer localcm.Release()
	one, other := connectMany(t, l, 1, a, b) // what only the first connection makes is no leak
	passMessages(t, a, b, one)
	closeMany(t, one, other)
	var before held
	must.Eventually(t, "one connection ends", func() bool {
		before = holding(t, m)
		return before.cm.CM.Conns == 0
	})
	for range 2 {
		clients, servers := connectMany(t, l, n, a, b)
		if u := m.Usage(); u.CM.Conns != 2*n || u.CM.HalfOpen != 0 || u.IDs != before.cm.IDs+2*n {
			t.Errorf("with %d connections: %+v", n, u)
		}
		passMessages(t, a, b, clients)
		closeMany(t, clients, servers)
	}
	must.Eventually(t, fmt.Sprintf("nothing more is held than %+v", before), func() bool {
		after := holding(t, m)
		return after.cm == before.cm && after.files <= before.files && after.goroutines <= before.goroutines
	})
}

// BenchmarkConnections sets up and ends connections, 1000 at a time. "held-B" is the heap
// that is left of 1000 when they have ended.
func BenchmarkConnections(b *testing.B) {
	const n = 1000
	x, y := newHost(b), newHost(b)
	l := listen(b, x.at(0).String())
	round := func() {
		clients, servers := connectMany(b, l, n, x, y)
		passMessages(b, x, y, clients)
		closeMany(b, clients, servers)
	}
	round()
	before := heap()
	b.ResetTimer()
	for range b.N {
		round()
	}
	b.StopTimer()
	b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "conns/s")
	b.ReportMetric(float64(heap()-before), "held-B")
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
