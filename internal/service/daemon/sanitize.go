package daemon

import (
	"errors"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/explain/sanitize"
	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/ucma"
	"github.com/gorxe/gorxe/internal/kernel/uverbs"
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/sys/procfs"
	"github.com/gorxe/gorxe/internal/trap"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// startSanitizer makes the session's sanitizer, if the program shall have one. The user pays for
// all that it may keep.
func (n *session) startSanitizer() error {
	if n.wanted.Sanitize == "" {
		return nil
	}
	checks, err := sanitize.ParseSelection(n.wanted.Sanitize)
	if err != nil {
		return err
	}
	if n.wanted.SanitizeAbort && errors.Is(unix.Kill(int(n.cred.Pid), 0), unix.EPERM) {
		return errMayNotAbort
	}
	n.sanitizerCost = quota.Cost{Memory: checks.Memory()}
	if err := n.tenant.Budget.Take(n.sanitizerCost); err != nil {
		return err
	}
	n.sanitizer = sanitize.New(checks, time.Now)
	return nil
}

// errMayNotAbort refuses --sanitize-abort.
var errMayNotAbort = errors.New("--sanitize-abort: the daemon may not send signals to this user's programs: it needs CAP_KILL, or to be of the same user")

// endSanitizer gives back what startSanitizer took.
func (n *session) endSanitizer() {
	if n.sanitizer != nil {
		n.tenant.Budget.Give(n.sanitizerCost)
	}
}

// watch has the sanitizer watch an open device.
func (n *session) watch(f *file, who trap.Credentials) {
	if n.sanitizer == nil {
		return
	}
	f.watcher = n.newWatcher(who.PID, f.reports.program, f.device.spec.Name)
	f.reports.sanitizer = f.watcher.File
	if n.wanted.SanitizeAbort {
		victim := newVictim(who.PID)
		f.watcher.OnError(func() { victim.signal(unix.SIGABRT) })
	}
	f.SetWatcher(f.watcher)
}

func (n *session) newWatcher(pid int, comm, device string) *watcher {
	return &watcher{File: n.sanitizer.Open(pid, programName(pid, comm), device), session: n.sanitizer, maps: -1}
}

// commBytes is how much of a program's name the kernel keeps (linux/sched.h: TASK_COMM_LEN).
const commBytes = 15

// programName returns the name of a process's program, of which comm may be the beginning. Users
// write the whole name into suppressions.
func programName(pid int, comm string) string {
	exe, err := procfs.Readlink(procfs.Path(pid, "exe"))
	if err != nil {
		return comm
	}
	return wholeName(comm, exe)
}

// wholeName returns the name of the file exe if comm is its beginning.
func wholeName(comm, exe string) string {
	if name := filepath.Base(exe); len(comm) == commBytes && strings.HasPrefix(name, comm) {
		return strings.TrimSuffix(name, " (deleted)")
	}
	return comm
}

// watchCM has the sanitizer watch an event channel.
func (n *session) watchCM(f *ucma.File, who trap.Credentials) {
	if n.sanitizer != nil {
		f.SetWatcher(cmWatcher{n.newWatcher(who.PID, processName(who.PID), sanitize.CMDevice)})
	}
}

// cmWatcher implements ucma.Watcher.
type cmWatcher struct{ *watcher }

// Made implements ucma.Watcher.
func (w cmWatcher) Made(id any, c kernel.Caller) {
	w.File.Made(id, sanitize.Made{Kind: "id of RDMA CM"}, w.stack(c, true))
}

// Ended implements ucma.Watcher.
func (w cmWatcher) Ended(id any) { w.File.Ended(id, nil) }

// Told implements ucma.Watcher.
func (w cmWatcher) Told(from netip.Addr, qp wire.QPN) { w.File.Told(endOf(from, qp)) }

// Heard implements ucma.Watcher.
func (w cmWatcher) Heard(from netip.Addr, qp wire.QPN) { w.File.Heard(endOf(from, qp)) }

func endOf(host netip.Addr, qp wire.QPN) sanitize.CMEnd {
	if !host.IsValid() {
		return sanitize.CMEnd{}
	}
	return sanitize.CMEnd{Host: host.WithZone("").String(), Number: uint32(qp)}
}

// Unacknowledged implements ucma.Watcher.
func (w cmWatcher) Unacknowledged(id any, n uint32, c kernel.Caller) {
	if thread, ok := c.(kernel.Standing); ok && thread.Alone() {
		w.File.Unacknowledged(id, n, w.stack(c, false))
	}
}

// watcher tells the sanitizer where in the program something happens. It implements uverbs.Watcher.
type watcher struct {
	*sanitize.File
	session *sanitize.Session

	mu   sync.Mutex
	maps int // index of the last list of mappings; negative: none
}

// stack returns the caller's stack; nil: it is not known. fresh says that the program may have
// mapped libraries since.
func (w *watcher) stack(c kernel.Caller, fresh bool) *sanitize.Stack {
	thread, ok := c.(kernel.Standing)
	if !ok {
		return nil
	}
	s, ok := thread.Stack(sanitize.StackBytes)
	if !ok {
		return nil
	}
	return &sanitize.Stack{TID: s.TID, PC: s.PC, SP: s.SP, Bytes: s.Bytes, Near: s.Behind, Maps: w.mapsOf(thread.Maps, fresh)}
}

// mapsOf returns the index of the process's mappings.
func (w *watcher) mapsOf(maps func(most int) string, fresh bool) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if fresh || w.maps < 0 {
		if text := maps(sanitize.MapsBytes); text != "" {
			w.maps = w.session.Maps(text)
		}
	}
	return w.maps
}

// Made implements uverbs.Watcher.
func (w *watcher) Made(id any, o uverbs.Watched, c kernel.Caller) {
	w.File.Made(id, w.madeOf(&o, c), w.stack(c, true))
}

// Changed implements uverbs.Watcher.
func (w *watcher) Changed(id any, o uverbs.Watched, c kernel.Caller) {
	w.File.Changed(id, w.madeOf(&o, c), w.stack(c, false))
}

// Ended implements uverbs.Watcher.
func (w *watcher) Ended(id any, unacked uint32, c kernel.Caller) {
	at := w.stack(c, false)
	if thread, ok := c.(kernel.Standing); ok && unacked > 0 && thread.Alone() {
		w.Unacknowledged(id, unacked, at)
	}
	w.File.Ended(id, at)
}

// Kept implements uverbs.Watcher.
func (w *watcher) Kept(id any, c kernel.Caller) { w.File.Kept(id, w.stack(c, false)) }

// Unread implements uverbs.Watcher.
func (w *watcher) Unread(id any, n uint32, c kernel.Caller) {
	w.File.Unread(id, n, w.stack(c, false))
}

// Modified implements uverbs.Watcher.
func (w *watcher) Modified(q *rxe.QP, attr *rxe.QPAttr, mask rxe.QPAttrMask, c kernel.Caller) {
	w.File.Modified(q, attr, mask, w.stack(c, false))
}

// Posting implements uverbs.Watcher.
func (w *watcher) Posting(q *rxe.QP, c kernel.Caller) { w.File.Posting(q, w.stack(c, false)) }

// Rings implements provider.Ringing.
func (w *watcher) Rings(q *rxe.QP, at *provider.At) { w.File.Posting(q, w.stackAt(at)) }

// Crossed does, too.
func (w *watcher) Crossed(qps []*rxe.QP, at [2]*provider.At) {
	w.File.Crossed(qps, [2]*sanitize.Stack{w.stackAt(at[0]), w.stackAt(at[1])})
}

// stackAt is where a thread stands.
func (w *watcher) stackAt(at *provider.At) *sanitize.Stack {
	if at == nil {
		return nil
	}
	maps := func(most int) string {
		text, err := procfs.ReadBegin(procfs.Path(at.PID, "maps"), most+1)
		if err != nil || len(text) > most {
			return ""
		}
		return string(text)
	}
	return &sanitize.Stack{TID: at.TID, PC: at.PC, SP: at.SP, Bytes: at.Bytes, Maps: w.mapsOf(maps, false)}
}

func (w *watcher) madeOf(o *uverbs.Watched, c kernel.Caller) sanitize.Made {
	m := sanitize.Made{Kind: o.Kind, Number: o.Key, Receives: o.Receives}
	switch {
	case o.Space != nil:
		m.Region = &sanitize.Region{Start: o.Start, Length: o.Length, Base: o.Base, Memory: o.Space}
		if thread, ok := c.(kernel.Standing); ok && w.session.SharesMemory() {
			m.Region.Shared = sanitize.SharedIn(thread.Maps(sanitize.MapsBytes), o.Start, o.Length)
		}
	case o.QP != nil:
		m.QP = &sanitize.QP{
			QP: o.QP, SendCQ: o.SendCQ, RecvCQ: o.RecvCQ, Depth: o.Cap.MaxSendWR, SignalAll: o.SignalAll, SRQ: o.SRQ,
		}
	case o.Entries != nil:
		m.CQ = &sanitize.CQ{Entries: o.Entries, Waiting: o.Waiting, Behind: o.Behind}
	}
	return m
}
