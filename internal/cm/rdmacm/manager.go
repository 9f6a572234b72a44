package rdmacm

import (
	"crypto/rand"
	"encoding/binary"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/cm"
	"github.com/gorxe/gorxe/internal/cm/route"
	"github.com/gorxe/gorxe/internal/sched/standby"
	"github.com/gorxe/gorxe/rxe"
)

// Config says what a Manager works with.
type Config struct {
	Resolver Resolver
	Log      *slog.Logger // nil: nothing is logged
}

// Manager has the IDs of a network namespace, and a connection manager for each device.
// All methods may be called by several goroutines at once, but not from a handler.
type Manager struct {
	resolver *openResolver
	now      func() rxe.Time
	log      *slog.Logger
	limits   cm.Limits

	mu      sync.Mutex
	closed  bool
	devices []*Device
	ids     map[*ID]struct{}
	idsOf   map[any]int // of each user
	ports   portSpaces
	queries queryHeap // address resolutions that time out
	work    []task    // what follows, in order: events above all
	armed   rxe.Time  // when the sleeping goroutine wakes up

	wake    chan struct{}
	stop    chan struct{}
	running sync.WaitGroup
	watch   *standby.Watch // over the senders
}

// task is a piece of work for an ID. It is dropped when the ID is destroyed.
type task struct {
	id *ID
	do func()
}

// never is later than any time.
const never = rxe.Time(1<<63 - 1)

// Open starts a Manager that uses the routes and the neighbors of the thread's network
// namespace. If log is nil, nothing is logged.
func Open(log *slog.Logger) (*Manager, error) {
	r, err := route.New()
	if err != nil {
		return nil, err
	}
	m := New(Config{Resolver: r, Log: log})
	m.resolver.end = r.Close
	return m, nil
}

// New starts a Manager without devices. The caller closes it.
func New(cfg Config) *Manager {
	start := time.Now()
	m := &Manager{
		resolver: &openResolver{Resolver: cfg.Resolver}, log: cfg.Log,
		now: func() rxe.Time { return rxe.Time(time.Since(start)) + 1 },
		ids: make(map[*ID]struct{}), idsOf: make(map[any]int), ports: newPortSpaces(), armed: never,
		wake: make(chan struct{}, 1), stop: make(chan struct{}), watch: standby.NewWatch(standby.CallLimit),
	}
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	m.running.Go(m.run)
	return m
}

// Close destroys the IDs, tells their peers, removes the devices, and waits until the
// Manager's goroutines have ended. No handler is called during Close or after it. The
// devices must still be able to send.
func (m *Manager) Close() {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return
	}
	m.closed = true
	for id := range m.ids {
		id.destroy(m.now())
	}
	devices := m.devices
	m.devices = nil
	for _, d := range devices {
		d.close(m.now())
	}
	m.mu.Unlock()
	close(m.stop)
	m.running.Wait()
	for _, d := range devices {
		d.out.wait()
	}
	m.watch.Close()
	m.resolver.close()
}

// AddDevice makes a device available. Wildcard listeners listen on it, too. The error is
// EEXIST for a device with the GUID of another one.
func (m *Manager) AddDevice(d *Device) error {
	m.mu.Lock()
	defer m.unlock()
	if m.closed {
		return unix.ESHUTDOWN
	}
	if slices.ContainsFunc(m.devices, func(e *Device) bool { return e.GUID == d.GUID }) {
		return unix.EEXIST
	}
	d.open(m)
	m.devices = append(m.devices, d)
	for id := range m.ids {
		if id.state == StateListen && id.dev == nil && id.owner.has(d) {
			d.listenAgain(id)
		}
	}
	return nil
}

// RemoveDevice removes a device. Each ID that is bound to it gets one DeviceRemoval, and
// can then only be destroyed. Connections end as if their IDs had been destroyed. The
// device must still be able to send. When RemoveDevice returns, it has sent everything.
func (m *Manager) RemoveDevice(d *Device) {
	m.mu.Lock()
	i := slices.Index(m.devices, d)
	if i < 0 {
		m.unlock()
		return
	}
	m.devices = slices.Delete(m.devices, i, i+1)
	now := m.now()
	for id := range m.ids {
		if id.dev == d {
			id.deviceRemoved(now)
		} else {
			id.forgetDevice(d)
		}
	}
	d.close(now)
	m.unlock()
	d.out.wait()
}

// RemoveFrom removes a device from the programs whose Owner lacks it from now on, as RemoveDevice
// does from all. Restore undoes it.
func (m *Manager) RemoveFrom(d *Device) {
	m.mu.Lock()
	defer m.unlock()
	now := m.now()
	for id := range m.ids {
		switch {
		case id.owner.has(d):
		case id.dev == d:
			id.deviceRemoved(now)
		default:
			id.forgetDevice(d)
		}
	}
}

// Restore makes a device available to programs whose Owner lacked it. Their wildcard listeners
// listen on it again.
func (m *Manager) Restore(d *Device) {
	m.mu.Lock()
	defer m.unlock()
	if m.closed || !slices.Contains(m.devices, d) {
		return
	}
	for id := range m.ids {
		if id.state == StateListen && id.dev == nil && id.owner.has(d) && !slices.Contains(id.listening, d) {
			d.listenAgain(id)
		}
	}
}

// listenAgain makes a wildcard listener listen on a device that has come.
func (d *Device) listenAgain(id *ID) {
	if err := d.listen(id); err != nil {
		d.manager.log.Warn("a listener does not listen on a new device", "device", d.Name, "address", id.src, "error", err)
	}
}

// run runs the timers, and the tasks that programs' calls have queued.
func (m *Manager) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		m.mu.Lock()
		now := m.now()
		for _, d := range m.devices {
			if at, ok := d.machine.Deadline(); ok && at <= now {
				d.machine.Expire(now)
			}
		}
		m.runTasks() // before what times out: an answer may have come
		m.queries.expire(now)
		m.runTasks()
		m.armed = m.deadline()
		timer.Reset(time.Duration(m.armed - m.now()))
		m.mu.Unlock()
		select {
		case <-timer.C:
		case <-m.wake:
		case <-m.stop:
			return
		}
	}
}

// deadline returns the time of the next timer. mu is held.
func (m *Manager) deadline() rxe.Time {
	next := never
	if at, ok := m.queries.deadline(); ok {
		next = at
	}
	for _, d := range m.devices {
		if at, ok := d.machine.Deadline(); ok {
			next = min(next, at)
		}
	}
	return next
}

// later queues a task. No handler runs within the call of a program, because the program
// may hold a lock that the handler takes. mu is held.
func (m *Manager) later(id *ID, do func()) {
	m.work = append(m.work, task{id, do})
}

// runTasks does the queued tasks. mu is held, by a goroutine that may call handlers.
func (m *Manager) runTasks() {
	for len(m.work) > 0 {
		work := m.work
		m.work = nil
		for i, t := range work {
			if !t.id.dead {
				t.do()
			}
			work[i] = task{}
		}
		if m.work == nil {
			m.work = work[:0]
		}
	}
}

// unlock unlocks mu at the end of a program's call. It wakes the goroutine if there is
// something for it to do, or if it sleeps for too long.
func (m *Manager) unlock() {
	wake := len(m.work) > 0 || m.deadline() < m.armed
	m.mu.Unlock()
	if wake {
		m.poke()
	}
}

func (m *Manager) poke() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// random returns 32 random bits that a peer cannot guess.
func random() uint32 {
	var b [4]byte
	rand.Read(b[:]) //nolint:errcheck // never fails
	return binary.NativeEndian.Uint32(b[:])
}
