package verbsapi

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/sys/bufmem"
)

// TestDMABuf: a peer writes into a buffer behind a descriptor. A memfd stands for the dma-buf;
// TestDMABuf of package bufmem has a true one.
func TestDMABuf(t *testing.T) {
	const size = 16 << 10
	fd := must(unix.MemfdCreate("buffer", unix.MFD_CLOEXEC))(t)
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, size); err != nil {
		t.Fatal(err)
	}
	const access = AccessLocalWrite | AccessRemoteWrite
	a, b := newPair(t, endConfig{}, ConnectAttr{})
	if _, err := b.pd.RegDMABufMR(0, size, 0, fd, access); !errors.Is(err, ErrInvalid) {
		t.Errorf("a memfd is no dma-buf: %v", err)
	}
	if _, err := b.pd.RegDMABufMR(0, 0, 0, -1, 0); !errors.Is(err, unix.EBADF) {
		t.Errorf("no descriptor: %v", err)
	}
	describeDMABuf = func(int) (bufmem.Info, error) { return bufmem.Info{Size: size, Exporter: "standin"}, nil }
	defer func() { describeDMABuf = bufmem.Describe }()
	for name, r := range map[string]struct {
		offset uint64
		length int
		iova   uint64
		access Access
	}{
		"nothing": {0, 0, 0, access}, "less": {0, -1, 0, access}, "beyond": {4096, size, 0, access}, "wraps": {1<<64 - 4096, 8192, 0, access},
		"iova": {0, 10, 1, access}, "right": {0, 10, 0, access | AccessMWBind}, "local write": {0, 10, 0, AccessRemoteWrite},
	} {
		if _, err := b.pd.RegDMABufMR(r.offset, r.length, r.iova, fd, r.access); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	mr := must(b.pd.RegDMABufMR(4096, 8192, 1<<40, fd, access))(t)
	if mr.Addr() != 1<<40 || mr.Len() != 8192 || mr.Bytes() != nil {
		t.Errorf("%d bytes at %#x", mr.Len(), mr.Addr())
	}
	fill(a.buf[:5000], 3)
	a.post(SendWR{ID: 1, Op: WRWrite, SGL: []SGE{a.mr.SGE(0, 5000)}, RemoteAddr: mr.Addr() + 100, RKey: mr.RKey()})
	a.expect(testContext(t), 1, WCSuccess)
	got := make([]byte, 5000)
	if _, err := unix.Pread(fd, got, 4096+100); err != nil || string(got) != string(a.buf[:5000]) {
		t.Errorf("the buffer has other data, %v", err)
	}
	// The program may take a buffer of its own instead.
	if err := mr.Rereg(ReregTranslation, nil, make([]byte, 10), access); err != nil || mr.Len() != 10 || mr.Bytes() == nil {
		t.Errorf("%d bytes: %v", mr.Len(), err)
	}
	if err := mr.Dereg(); err != nil {
		t.Error(err)
	}
}
