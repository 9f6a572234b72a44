package verbsapi

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/gorxe/gorxe/internal/explain/sanitize"
	"github.com/gorxe/gorxe/internal/sys/bufmem"
	"github.com/gorxe/gorxe/rxe"
)

// Misuse is what the sanitizer has found (Config.Sanitize).
type Misuse struct {
	Errors, Warnings, Notes int
	Text                    string // as gorxe run --sanitize prints it
}

// watcher tells the sanitizer what a program does in a context. A nil one does nothing.
type watcher struct {
	file    *sanitize.File
	session *sanitize.Session
}

func newWatcher(checks, device string) (*watcher, error) {
	if checks == "" {
		return nil, nil
	}
	selected, err := sanitize.ParseSelection(checks)
	if err != nil {
		return nil, invalid("Open", "sanitize", err.Error())
	}
	s := sanitize.New(selected, time.Now)
	return &watcher{session: s, file: s.Open(os.Getpid(), filepath.Base(os.Args[0]), device)}, nil
}

// Misuse returns what was found so far. An object that is left when the context is closed is no
// misuse: Close destroys it.
func (c *Context) Misuse() Misuse {
	if c.watch == nil {
		return Misuse{}
	}
	r := c.watch.session.Report()
	var b strings.Builder
	r.Write(&b)
	return Misuse{r.Count(sanitize.Error), r.Count(sanitize.Warning), r.Count(sanitize.Note), b.String()}
}

// observe has a new queue pair watched.
func (w *watcher) observe(init *rxe.QPInitAttr) {
	if w != nil {
		init.Observer, init.Reports = w.file, w.file
	}
}

func (w *watcher) posting(q *rxe.QP) {
	if w != nil {
		w.file.Posting(q, stack())
	}
}

func (w *watcher) modified(q *rxe.QP, attr *rxe.QPAttr, mask rxe.QPAttrMask) {
	if w != nil {
		w.file.Modified(q, attr, mask, stack())
	}
}

func (w *watcher) made(ch child) {
	if w == nil {
		return
	}
	if m := madeOf(ch); m.Kind != "" {
		w.file.Made(ch, m, stack())
	}
}

func (w *watcher) changed(m *MR) {
	if w != nil {
		w.file.Changed(m, madeOf(m), stack())
	}
}

func (w *watcher) ended(ch child) {
	if w != nil {
		w.file.Ended(ch, stack())
	}
}

// close ends the watch before the context destroys what is left.
func (w *watcher) close() {
	if w != nil {
		w.file.Close(true)
	}
}

// madeOf describes an object; of one that no check knows, Kind is empty.
func madeOf(ch child) sanitize.Made {
	switch o := ch.(type) {
	case *MR:
		at := o.at.Load()
		r := &sanitize.Region{Start: at.base, Length: uint64(at.length), Base: at.base}
		if at.buf != nil {
			r.Start, r.Memory = bufmem.Addr(at.buf), bufmem.NewSlice(at.buf)
		}
		return sanitize.Made{Kind: "memory region", Number: uint32(o.LKey()), Region: r}
	case *MW:
		return sanitize.Made{Kind: "memory window", Number: uint32(o.RKey())}
	case *CQ:
		return sanitize.Made{Kind: "completion queue", CQ: &sanitize.CQ{Entries: o.cq.Cap, Waiting: o.cq.Waiting}}
	case *QP:
		q := &sanitize.QP{QP: o.qp, Depth: o.init.Cap.MaxSendWR, SignalAll: o.init.SignalAll}
		if o.init.SendCQ != nil {
			q.SendCQ = o.init.SendCQ
		}
		if _, eng, err := o.qp.Query(); err == nil {
			q.Depth = eng.Cap.MaxSendWR
		}
		return sanitize.Made{Kind: "queue pair", Number: uint32(o.Num()), QP: q}
	}
	return sanitize.Made{}
}

// stack returns the calling goroutine's stack, without the frames of this package.
func stack() *sanitize.Stack {
	var pcs [sanitize.Callers]uintptr
	n := runtime.Callers(2, pcs[:])
	frames := runtime.CallersFrames(pcs[:n])
	s := &sanitize.Stack{Maps: -1}
	for {
		f, more := frames.Next()
		if !strings.HasPrefix(f.Function, ownPackage) && f.Function != "" && !strings.HasPrefix(f.Function, "runtime.") {
			if s.PC == 0 {
				s.PC = uint64(f.PC)
			}
			s.Lines = append(s.Lines, sanitize.Frame{Function: f.Function, File: f.File, Line: f.Line})
		}
		if !more {
			return s
		}
	}
}

// ownPackage is how names of this package's functions begin.
const ownPackage = "github.com/gorxe/gorxe/verbsapi."
