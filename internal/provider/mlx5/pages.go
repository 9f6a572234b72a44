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

// pages are the registers of an open: pages of its file. libmlx5 maps each of them at the offset of
// one of two commands, as MLX5_SHUT_UP_BF says.
//
// The program has all rights to this file, which is sealed against a change of size. A page that it
// punched out is zero at the next access, or that access is SIGBUS (vm.overcommit_memory=2). Then
// all pages are lost: nobody hears this program's doorbells any more.
type pages struct {
	file int
	size int64

	mu  sync.Mutex // a leaf lock, held for accesses
	mem [2][]byte  // nil: closed, or lost
}

var pageCommands = [2]int64{mmapRegular, mmapNC}

func newPages(offsets *provider.Offsets) (*pages, error) {
	fd, err := memfd.Create("gorxe-uverbs")
	if err != nil {
		return nil, fmt.Errorf("memfd for registers: %w", err)
	}
	p := &pages{file: fd, size: uarPages * provider.PageSize}
	if err := p.make(offsets); err != nil {
		p.close()
		return nil, fmt.Errorf("memfd for registers: %w", err)
	}
	return p, nil
}

func (p *pages) make(offsets *provider.Offsets) error {
	if err := unix.Ftruncate(p.file, fileEnd); err != nil {
		return err
	}
	const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(uintptr(p.file), unix.F_ADD_SEALS, seals); err != nil {
		return err
	}
	for i, command := range pageCommands {
		at := command << mmapShift * provider.PageSize
		if err := offsets.TakeAt(at, p.size); err != nil {
			return err
		}
		mem, err := unix.Mmap(p.file, at, int(p.size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return err
		}
		p.mem[i] = mem
	}
	return nil
}

// close unmaps the pages and closes the file.
func (p *pages) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, mem := range p.mem {
		if mem != nil {
			_ = unix.Munmap(mem) // fails only for what is not mapped
		}
		p.mem[i] = nil
	}
	_ = unix.Close(p.file) // there is nothing to write back
}

// take clears the words at these offsets of all pages' beginning, and calls found with the index of
// each that was not zero, and what it was. It reports false if the pages are gone.
func (p *pages) take(words []int, found func(i int, was uint64)) (ok bool) {
	defer p.unlock(p.lock())
	for v := range p.mem {
		mem := p.mem[v]
		if mem == nil {
			return false
		}
		for i, at := range words {
			w := (*uint64)(unsafe.Pointer(&mem[at]))
			if atomic.LoadUint64(w) != 0 {
				found(i, atomic.SwapUint64(w, 0))
			}
		}
	}
	return true
}

// lock begins accesses. From then on a fault is a panic of this thread. It would end the daemon
// otherwise.
func (p *pages) lock() (faults bool) {
	p.mu.Lock()
	return debug.SetPanicOnFault(true)
}

// unlock is deferred, and ends the accesses.
func (p *pages) unlock(faults bool) {
	debug.SetPanicOnFault(faults)
	e := recover()
	if _, fault := e.(interface{ Addr() uintptr }); fault {
		for i, mem := range p.mem {
			_ = unix.Munmap(mem)
			p.mem[i] = nil
		}
		e = nil
	}
	p.mu.Unlock()
	if e != nil {
		panic(e)
	}
}
