package mlx5

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/sys/memfd"
)

// pages are what an open shares with its program in pages of its file: registers, and the clock.
//
// The program has all rights to this file, which is sealed against a change of size. A page that it
// punched out is zero at the next access, or that access is SIGBUS (vm.overcommit_memory=2). Then
// all pages are lost: nobody hears this program's doorbells any more.
type pages struct {
	file int

	mu     sync.Mutex // a leaf lock, held for accesses
	chunks [][]byte   // what is mapped
	lost   bool
}

// page is one of them.
type page struct {
	mem    []byte
	offset int64 // in the file
	// single says that each of its registers is for one thread at a time. libmlx5 has a lock for
	// it, unless the program has said that it needs none (ibv_alloc_td, MLX5_SINGLE_THREADED).
	// Once the page is given out, this does not change.
	single bool
}

// word is 8 bytes of a page.
type word struct {
	page *page
	at   int
}

func newPages() (*pages, error) {
	fd, err := memfd.Create("gorxe-uverbs")
	if err != nil {
		return nil, fmt.Errorf("memfd for registers: %w", err)
	}
	p := &pages{file: fd}
	if err := p.seal(); err != nil {
		p.close()
		return nil, fmt.Errorf("memfd for registers: %w", err)
	}
	return p, nil
}

func (p *pages) seal() error {
	if err := unix.Ftruncate(p.file, fileEnd); err != nil {
		return err
	}
	const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	_, err := unix.FcntlInt(uintptr(p.file), unix.F_ADD_SEALS, seals)
	return err
}

// add maps n pages at an offset that is the caller's (provider.Offsets).
func (p *pages) add(at int64, n int) ([]*page, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lost {
		return nil, unix.EIO
	}
	mem, err := unix.Mmap(p.file, at, n*provider.PageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	p.chunks = append(p.chunks, mem)
	list := make([]*page, n)
	for i := range list {
		list[i] = &page{mem: mem[i*provider.PageSize:][:provider.PageSize], offset: at + int64(i)*provider.PageSize}
	}
	return list, nil
}

// close unmaps the pages and closes the file.
func (p *pages) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose()
	_ = unix.Close(p.file) // there is nothing to write back
}

// lose unmaps the pages. mu is held.
func (p *pages) lose() {
	for _, mem := range p.chunks {
		_ = unix.Munmap(mem) // fails only for what is not mapped
	}
	p.chunks, p.lost = nil, true
}

// take clears these words, and calls found with the index of each that was not zero. It reports
// false if the pages are gone.
func (p *pages) take(words []word, found func(i int)) (ok bool) {
	p.access(func() {
		for i, w := range words {
			v := w.pointer()
			if atomic.LoadUint64(v) != 0 && atomic.SwapUint64(v, 0) != 0 {
				found(i)
			}
		}
		ok = true
	})
	return ok
}

// access calls f, which may access the pages, if they are there.
func (p *pages) access(f func()) {
	p.mu.Lock()
	defer p.unlock(debug.SetPanicOnFault(true)) // or a fault would end the daemon
	if !p.lost {
		f()
	}
}

func (p *pages) unlock(faults bool) {
	debug.SetPanicOnFault(faults)
	e := recover()
	if _, fault := e.(interface{ Addr() uintptr }); fault {
		p.lose()
		e = nil
	}
	p.mu.Unlock()
	if e != nil {
		panic(e)
	}
}

// pointer is for functions of access.
func (w word) pointer() *uint64 { return (*uint64)(unsafe.Pointer(&w.page.mem[w.at])) }
