package bufmem

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/sys/fdid"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/rxe"
)

const pages = 4
const size = pages * 4096

// memory is a memfd that may stand for a dma-buf: Map does not look at what a file is.
func memory(t *testing.T) int {
	t.Helper()
	fd := must.Get[int](t)(unix.MemfdCreate("buffer", unix.MFD_ALLOW_SEALING|unix.MFD_CLOEXEC))
	t.Cleanup(func() { unix.Close(fd) })
	must.OK(t, unix.Ftruncate(fd, size))
	return fd
}

// dmabuf is a dma-buf: a memfd's udmabuf or a buffer of vgem where the machine has one, and else a
// memfd.
func dmabuf(t *testing.T) (fd int, info Info, exporter string) {
	t.Helper()
	file := memory(t)
	for name, export := range map[string]func(*testing.T, int) (int, error){"udmabuf": fromUDMABuf, "drm": fromVGEM} {
		fd, err := export(t, file)
		if err == nil {
			t.Cleanup(func() { unix.Close(fd) })
			t.Log("the dma-buf is one of " + name)
			return fd, must.Get[Info](t)(Describe(fd)), name
		}
		t.Logf("no %s: %v", name, err)
	}
	t.Log("a memfd stands for the dma-buf")
	return file, Info{size, "a stand-in"}, "a stand-in"
}

func call[T any](fd int, request uintptr, arg *T) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(arg))); errno != 0 {
		return errno
	}
	return nil
}

// fromUDMABuf makes a dma-buf of a memfd (linux/udmabuf.h).
func fromUDMABuf(t *testing.T, file int) (int, error) {
	dev, err := os.OpenFile("/dev/udmabuf", os.O_RDWR, 0)
	if err != nil {
		return -1, err
	}
	defer dev.Close()
	must.Get[int](t)(unix.FcntlInt(uintptr(file), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK))
	create := struct { // struct udmabuf_create
		memfd, flags uint32
		offset, size uint64
	}{memfd: uint32(file), size: size}
	// UDMABUF_CREATE
	made, _, errno := unix.Syscall(unix.SYS_IOCTL, dev.Fd(), 0x40187542, uintptr(unsafe.Pointer(&create)))
	if errno != 0 {
		return -1, errno
	}
	return int(made), nil
}

// fromVGEM exports a dumb buffer of the driver vgem (drm/drm.h, drm/drm_mode.h).
func fromVGEM(t *testing.T, _ int) (int, error) {
	cards, err := filepath.Glob("/dev/dri/card*")
	must.OK(t, err)
	for _, card := range cards {
		dev, err := os.OpenFile(card, os.O_RDWR, 0)
		if err != nil {
			return -1, err
		}
		defer dev.Close()
		name := make([]byte, 4)
		version := struct { // struct drm_version
			_          [2]uint64
			nameLen    uint64
			name       *byte
			_, _, _, _ uint64
		}{nameLen: uint64(len(name)), name: &name[0]}
		// DRM_IOCTL_VERSION
		if call(int(dev.Fd()), 0xc0406400, &version) != nil || string(name) != "vgem" {
			continue
		}
		dumb := struct { // struct drm_mode_create_dumb
			height, width, bpp, flags, handle, pitch uint32
			size                                     uint64
		}{height: pages, width: 4096, bpp: 8}
		if err := call(int(dev.Fd()), 0xc02064b2, &dumb); err != nil { // DRM_IOCTL_MODE_CREATE_DUMB
			return -1, err
		}
		prime := struct { // struct drm_prime_handle
			handle, flags uint32
			fd            int32
		}{handle: dumb.handle, flags: unix.O_RDWR | unix.O_CLOEXEC}
		// DRM_IOCTL_PRIME_HANDLE_TO_FD
		if err := call(int(dev.Fd()), 0xc00c642d, &prime); err != nil {
			return -1, err
		}
		return int(prime.fd), nil
	}
	return -1, unix.ENOENT
}

// TestDMABuf: a read finds the bytes of a write, in the buffer and not beyond it. The atomics work.
func TestDMABuf(t *testing.T) {
	fd, info, exporter := dmabuf(t)
	if info.Size != size || info.Exporter != exporter {
		t.Errorf("%+v of %s", info, exporter)
	}
	d := must.Get[*DMABuf](t)(Map(fd, info))
	defer d.Close()
	must.OK(t, d.WriteV([]rxe.Span{{VA: 4095, Buf: []byte("hello")}, {VA: size - 1, Buf: []byte("!")}}))
	got := make([]byte, 5)
	must.OK(t, d.ReadV([]rxe.Span{{VA: 4095, Buf: got}}))
	if string(got) != "hello" {
		t.Errorf("read %q", got)
	}
	if err := d.ReadV([]rxe.Span{{VA: size - 1, Buf: got}}); err == nil {
		t.Error("read beyond the buffer")
	}
	must.OK(t, d.Store(64, 5))
	if old := must.Get[uint64](t)(d.FetchAdd(64, 2)); old != 5 {
		t.Errorf("fetch and add found %d", old)
	}
	if old := must.Get[uint64](t)(d.CompareSwap(64, 7, 9)); old != 7 {
		t.Errorf("compare and swap found %d", old)
	}
	must.OK(t, d.ReadV([]rxe.Span{{VA: 64, Buf: got[:1]}}))
	if v := uint64(got[0]); v != 9 && binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		t.Errorf("the word is %d", v)
	}
	for _, r := range []struct {
		at, n uint64
		want  error
	}{{0, size, nil}, {size, 0, nil}, {1, size, unix.EINVAL}, {size + 1, 0, unix.EINVAL}, {1<<64 - 1, 2, unix.EINVAL}} {
		if err := d.Check(r.at, r.n, true); !errors.Is(err, r.want) {
			t.Errorf("%d bytes at %d: %v, not %v", r.n, r.at, err, r.want)
		}
	}
}

// TestRevoked: the exporter takes pages back while the buffer is mapped. The kernel sends SIGBUS,
// and each access fails with EFAULT.
func TestRevoked(t *testing.T) {
	fd := memory(t)
	d := must.Get[*DMABuf](t)(Map(fd, Info{size, "a stand-in"}))
	defer d.Close()
	must.OK(t, d.Store(0, 1))
	must.OK(t, unix.Ftruncate(fd, 4096))
	page := make([]byte, 4096)
	_, swapped := d.CompareSwap(8192, 0, 1)
	_, added := d.FetchAdd(8192, 1)
	for name, err := range map[string]error{
		"read": d.ReadV([]rxe.Span{{VA: 8192, Buf: page}}), "write": d.WriteV([]rxe.Span{{VA: 2048, Buf: page}}),
		"store": d.Store(8192, 1), "compare and swap": swapped, "fetch and add": added,
	} {
		if !errors.Is(err, unix.EFAULT) {
			t.Errorf("%s: %v", name, err)
		}
	}
	must.OK(t, d.ReadV([]rxe.Span{{VA: 0, Buf: page}}))
}

// TestReadOnly: a descriptor that was opened for reading gives no right to write, not even when
// another mapping of the same buffer has it.
func TestReadOnly(t *testing.T) {
	fd := memory(t)
	both := must.Get[*DMABuf](t)(Map(fd, Info{size, "a stand-in"}))
	defer both.Close()
	file, err := os.Open("/proc/self/fd/" + strconv.Itoa(fd))
	must.OK(t, err)
	defer file.Close()
	d := must.Get[*DMABuf](t)(Map(int(file.Fd()), Info{size, "a stand-in"}))
	defer d.Close()
	_, swapped := d.CompareSwap(0, 0, 1)
	_, added := d.FetchAdd(0, 1)
	for _, err := range []error{d.WriteV([]rxe.Span{{Buf: []byte{1}}}), d.Store(0, 1), swapped, added} {
		if !errors.Is(err, unix.EFAULT) {
			t.Errorf("write: %v", err)
		}
	}
	if err := d.Check(0, 1, true); !errors.Is(err, unix.EACCES) {
		t.Errorf("%v", err)
	}
	must.OK(t, d.ReadV([]rxe.Span{{Buf: []byte{1}}}))
}

// TestMappings: many users of a buffer share a mapping, which ends with the last. There is a most
// of different buffers.
func TestMappings(t *testing.T) {
	fd := memory(t)
	info := Info{size, "a stand-in"}
	var all []*DMABuf
	for range 10_000 {
		all = append(all, must.Get[*DMABuf](t)(Map(fd, info)))
	}
	if n := len(mappings.all); n != 1 {
		t.Errorf("%d mappings of one buffer", n)
	}
	for i := range maxMappings - 1 {
		mappings.all[mappingKey{writable: i%2 == 0, file: fdid.ID{Ino: uint64(i)}}] = nil
	}
	if _, err := Map(memory(t), info); !errors.Is(err, errTooMany) || !errors.Is(err, unix.ENOMEM) {
		t.Errorf("one buffer too many: %v", err)
	}
	for i := range maxMappings - 1 {
		delete(mappings.all, mappingKey{writable: i%2 == 0, file: fdid.ID{Ino: uint64(i)}})
	}
	for _, d := range all {
		d.Close()
		d.Close()
	}
	if n := len(mappings.all); n != 0 {
		t.Errorf("%d mappings are left", n)
	}
}

// TestDescribe: only a dma-buf is taken for one.
func TestDescribe(t *testing.T) {
	if _, err := Describe(memory(t)); !errors.Is(err, unix.EINVAL) {
		t.Errorf("a memfd: %v", err)
	}
	if _, err := Describe(-1); !errors.Is(err, unix.EBADF) {
		t.Errorf("no descriptor: %v", err)
	}
	const text = "pos:\t0\nflags:\t02000002\nmnt_id:\t15\nino:\t7\nsize:\t8192\ncount:\t1\nexp_name:\tudmabuf\nname:\ta\nsize:\t1\nexp_name:\tother\n"
	if i, err := describe(text); err != nil || i != (Info{8192, "udmabuf"}) {
		t.Errorf("%+v, %v", i, err)
	}
	for _, text := range []string{"", "size:\t8192\n", "exp_name:\tx\n", "size:\t-1\nexp_name:\tx\n", "size:\t9223372036854775808\nexp_name:\tx\n"} {
		if _, err := describe(text); !errors.Is(err, unix.EINVAL) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestOtherPanics: a panic goes on that no access to memory caused.
func TestOtherPanics(t *testing.T) {
	defer func() {
		if r := recover(); r != "another" {
			t.Errorf("recovered %v", r)
		}
	}()
	var err error
	defer survive(false, &err)
	panic("another")
}
