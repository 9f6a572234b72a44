package bench

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/gorxe/gorxe/verbsapi"
)

// The Go library does in this process what a row's two programs do. That is the limit for
// programs, because it needs no call to a daemon. For rows of one daemon both queue pairs belong
// to one device, and for rows of two daemons to two devices on the loopback interface.

// library is the baseline of a row that the Go library does.
func (r Row) library() baseline {
	where := r.Place
	if where == OneRun {
		where = OneDaemon // the library knows no runs
	}
	r.Place = where
	return baseline{place: where, kind: r.Kind, row: r}
}

// ends are two connected queue pairs.
type ends struct {
	near, far *side
	devices   []*verbsapi.Context
}

// side is one of them, with a buffer for a message.
type side struct {
	qp  *verbsapi.QP
	cq  *verbsapi.CQ
	mr  *verbsapi.MR
	wcs []verbsapi.WC
	// receives are all alike.
	receives []verbsapi.RecvWR
}

// openEnds connects two queue pairs, of one device or of two. Callers at the same time have
// different numbers.
func openEnds(r Row, number int) (e *ends, err error) {
	e = new(ends)
	defer func() {
		if err != nil {
			e.close()
			e = nil
		}
	}()
	devices := 1
	if r.Place == TwoDaemons {
		devices = 2
	}
	for i := range devices {
		addr := netip.AddrFrom4([4]byte{127, byte(101 + 2*number + i), byte(os.Getpid() >> 8), byte(os.Getpid()) | 1})
		d, err := verbsapi.Open(verbsapi.Config{Address: addr})
		if err != nil {
			return e, err
		}
		e.devices = append(e.devices, d)
	}
	if e.near, err = newSide(e.devices[0], r); err != nil {
		return e, err
	}
	if e.far, err = newSide(e.devices[devices-1], r); err != nil {
		return e, err
	}
	return e, connect(e.near, e.far, verbsapi.MTU(r.MTU))
}

func newSide(d *verbsapi.Context, r Row) (*side, error) {
	pd, err := d.AllocPD()
	if err != nil {
		return nil, err
	}
	e := &side{wcs: make([]verbsapi.WC, txDepth)}
	access := verbsapi.AccessLocalWrite | verbsapi.AccessRemoteWrite | verbsapi.AccessRemoteRead | verbsapi.AccessRemoteAtomic
	if e.mr, err = pd.RegMR(make([]byte, r.Size), access); err != nil {
		return nil, err
	}
	if e.cq, err = d.CreateCQ(4*txDepth, nil); err != nil {
		return nil, err
	}
	e.qp, err = pd.CreateQP(verbsapi.QPInitAttr{
		Type: verbsapi.QPRC, SendCQ: e.cq, RecvCQ: e.cq,
		Cap: verbsapi.QPCap{MaxSendWR: txDepth, MaxRecvWR: 2 * txDepth, MaxSendSGE: 1, MaxRecvSGE: 1},
	})
	return e, err
}

func connect(a, b *side, mtu verbsapi.MTU) error {
	ia, err := a.qp.Info(1, 0)
	if err != nil {
		return err
	}
	ib, err := b.qp.Info(2, 0)
	if err != nil {
		return err
	}
	if err := a.qp.Connect(ia, ib, verbsapi.ConnectAttr{PathMTU: mtu}); err != nil {
		return err
	}
	return b.qp.Connect(ib, ia, verbsapi.ConnectAttr{PathMTU: mtu})
}

func (e *ends) close() {
	for _, d := range e.devices {
		_ = d.Close() // what belongs to it goes with it
	}
}

// operation is the work request of a row's tool, from one end to the other.
func (r Row) operation(from, to *side) verbsapi.SendWR {
	wr := verbsapi.SendWR{
		Op: verbsapi.WRSend, Flags: verbsapi.SendSignaled, SGL: []verbsapi.SGE{from.mr.SGE(0, r.Size)},
		RemoteAddr: to.mr.Addr(), RKey: to.mr.RKey(),
	}
	switch {
	case strings.HasPrefix(r.Tool, "ib_write"):
		wr.Op = verbsapi.WRWrite
	case strings.HasPrefix(r.Tool, "ib_read"):
		wr.Op = verbsapi.WRRead
	case r.Tool == atomicLat:
		wr.Op, wr.CompareAdd = verbsapi.WRFetchAdd, 1
	}
	return wr
}

// limit measures a row with the Go library, for about span. The figure is of the row's kind.
func (r Row) limit(ctx context.Context, span time.Duration, number int) (figure float64, err error) {
	e, err := openEnds(r, number)
	if err != nil {
		return 0, fmt.Errorf("the Go library: %w", err)
	}
	defer e.close()
	ctx, cancel := context.WithTimeout(ctx, pairLimit)
	defer cancel()
	var n int
	var took time.Duration
	switch {
	case r.Kind != Latency:
		n, took, err = e.stream(ctx, r, span)
	case r.oneProgramPolls():
		n, took, err = e.roundTrips(ctx, r, span)
	default:
		n, took, err = e.pingPong(ctx, r, span)
	}
	if err != nil {
		return 0, fmt.Errorf("the Go library: %w", err)
	}
	each := float64(took.Nanoseconds()) / float64(n)
	switch r.Kind {
	case Latency:
		return each / 1e3, nil
	case Bandwidth:
		return float64(r.Size) / each * 1e9 / (1 << 30), nil
	default:
		return 1e9 / each, nil
	}
}

// stream keeps the queue full.
func (e *ends) stream(ctx context.Context, r Row, span time.Duration) (done int, took time.Duration, err error) {
	list := make([]verbsapi.SendWR, max(r.PostList, 1))
	for i := range list {
		list[i] = r.operation(e.near, e.far)
	}
	receiveAgain := func() error { return nil }
	if list[0].Op == verbsapi.WRSend {
		if err := e.far.receive(2*txDepth, r.Size); err != nil {
			return 0, 0, err
		}
		if len(e.devices) == 1 {
			receiveAgain = func() error { return e.far.receiveAgain(r.Size) }
		} else {
			defer e.far.keepReceiving(ctx, r.Size)()
		}
	}
	start := time.Now()
	for posted := 0; done == 0 || time.Since(start) < span; {
		for posted-done+len(list) <= txDepth {
			if _, err := e.near.qp.PostSend(list); err != nil {
				return 0, 0, err
			}
			posted += len(list)
		}
		n, err := e.near.completions(ctx)
		if err != nil {
			return 0, 0, err
		}
		done += n
		if err := receiveAgain(); err != nil {
			return 0, 0, err
		}
	}
	return done, time.Since(start), nil
}

// completions waits for at least one completion, and returns how many there were.
func (s *side) completions(ctx context.Context) (int, error) {
	n, err := s.cq.Wait(ctx, s.wcs)
	return n, errors.Join(err, s.check(n))
}

// check returns an error if one of the first n completions has one.
func (s *side) check(n int) error {
	for _, wc := range s.wcs[:n] {
		if wc.Status != verbsapi.WCSuccess {
			return fmt.Errorf("a work request completed with %v", wc.Status)
		}
	}
	return nil
}

// receive posts n receives for messages of size bytes.
func (s *side) receive(n, size int) error {
	for len(s.receives) < n {
		s.receives = append(s.receives, verbsapi.RecvWR{SGL: []verbsapi.SGE{s.mr.SGE(0, size)}})
	}
	_, err := s.qp.PostRecv(s.receives[:n])
	return err
}

// receiveAgain posts as many receives as have completed. Within one device the goroutine that sends
// calls it, so no receive is late. With another goroutine on another processor the library is half
// as fast.
func (s *side) receiveAgain(size int) error {
	for {
		n, err := s.cq.Poll(s.wcs)
		if n == 0 || err != nil {
			return err
		}
		if err := errors.Join(s.check(n), s.receive(n, size)); err != nil {
			return err
		}
	}
}

// keepReceiving posts as many receives as complete, until stop. Between two devices a goroutine of
// its own is faster.
func (s *side) keepReceiving(ctx context.Context, size int) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			n, err := s.completions(ctx)
			if err != nil || s.receive(n, size) != nil {
				return // the sender finds no receive, and says so
			}
		}
	}()
	return func() { cancel(); <-done }
}

// roundTrips waits for one work request at a time.
func (e *ends) roundTrips(ctx context.Context, r Row, span time.Duration) (n int, took time.Duration, err error) {
	wr := []verbsapi.SendWR{r.operation(e.near, e.far)}
	start := time.Now()
	for n == 0 || time.Since(start) < span {
		if _, err := e.near.qp.PostSend(wr); err != nil {
			return 0, 0, err
		}
		if _, err := e.near.completions(ctx); err != nil {
			return 0, 0, err
		}
		n++
	}
	return n, time.Since(start), nil
}

// pingPong sends a message there and one back, and counts two. A WRITE has immediate data, so
// the other end need not look at its memory.
func (e *ends) pingPong(ctx context.Context, r Row, span time.Duration) (n int, took time.Duration, err error) {
	start := time.Now()
	for n == 0 || time.Since(start) < span {
		if err := r.message(ctx, e.near, e.far); err != nil {
			return 0, 0, err
		}
		if err := r.message(ctx, e.far, e.near); err != nil {
			return 0, 0, err
		}
		n += 2
	}
	return n, time.Since(start), nil
}

// message sends one message, and waits until it is received.
func (r Row) message(ctx context.Context, from, to *side) error {
	if err := to.receive(1, r.Size); err != nil {
		return err
	}
	wr := r.operation(from, to)
	if wr.Op == verbsapi.WRWrite {
		wr.Op = verbsapi.WRWriteImm
	}
	wr.Flags = 0
	if _, err := from.qp.PostSend([]verbsapi.SendWR{wr}); err != nil {
		return err
	}
	_, err := to.completions(ctx)
	return err
}
