package verbsapi

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
)

// TestDM: a peer writes to device memory, adds to it and reads it, and the program copies. A region
// keeps the memory.
func TestDM(t *testing.T) {
	ctx := testContext(t)
	a, b := newPair(t, endConfig{bufSize: 64}, ConnectAttr{})
	dm := must(b.ctx.AllocDM(4096, 3))(t)
	const all = AccessLocalWrite | AccessRemoteWrite | AccessRemoteRead | AccessRemoteAtomic | AccessZeroBased
	mr := must(b.pd.RegDMMR(dm, 1024, 2048, all))(t)
	if mr.Addr() != 0 || mr.Len() != 2048 || mr.Bytes() != nil {
		t.Errorf("the region is at %#x, and has %d bytes", mr.Addr(), mr.Len())
	}
	copy(a.buf, "to the device")
	a.post(SendWR{ID: 1, Op: WRWrite, SGL: []SGE{a.mr.SGE(0, 16)}, RemoteAddr: 64, RKey: mr.RKey()})
	a.expect(ctx, 1, WCSuccess)
	got := make([]byte, 13)
	if err := dm.MemcpyFrom(got, 1024+64); err != nil || string(got) != "to the device" {
		t.Errorf("the memory has %q, %v", got, err)
	}
	if err := dm.MemcpyTo(1024, binary.NativeEndian.AppendUint64(nil, 40)); err != nil {
		t.Fatal(err)
	}
	a.post(SendWR{ID: 2, Op: WRFetchAdd, SGL: []SGE{a.mr.SGE(0, 8)}, RKey: mr.RKey(), CompareAdd: 2})
	a.expect(ctx, 2, WCSuccess)
	a.post(SendWR{ID: 3, Op: WRRead, SGL: []SGE{a.mr.SGE(8, 8)}, RKey: mr.RKey()})
	a.expect(ctx, 3, WCSuccess)
	if want := []uint64{40, 42}; !bytes.Equal(a.buf[:16], binary.NativeEndian.AppendUint64(binary.NativeEndian.AppendUint64(nil, want[0]), want[1])) {
		t.Errorf("it was and is % x", a.buf[:16])
	}

	for what, err := range map[string]error{
		"nothing":           second(b.ctx.AllocDM(0, 0)),
		"too much":          second(b.ctx.AllocDM(MaxDMSize+1, 0)),
		"alignment":         second(b.ctx.AllocDM(8, 13)),
		"not zero based":    second(b.pd.RegDMMR(dm, 0, 8, AccessLocalWrite)),
		"behind the end":    second(b.pd.RegDMMR(dm, 4090, 8, all)),
		"another context's": second(a.pd.RegDMMR(dm, 0, 8, all)),
		"a copy too long":   dm.MemcpyTo(4090, make([]byte, 8)),
		"an offset too far": dm.MemcpyFrom(got, 1<<63),
	} {
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := mr.Rereg(ReregAccess, nil, nil, all); !errors.Is(err, ErrNotSupported) {
		t.Errorf("reregistration: %v", err)
	}
	if err := second(b.ctx.AllocDM(MaxDMSize, 0)); !errors.Is(err, ErrFull) {
		t.Errorf("more than is left: %v", err)
	}
	if err := dm.Free(); !errors.Is(err, ErrBusy) {
		t.Errorf("with a region: %v", err)
	}
	if err := errors.Join(mr.Dereg(), dm.Free()); err != nil {
		t.Error(err)
	}
	for what, err := range map[string]error{"free": dm.Free(), "copy": dm.MemcpyTo(0, got), "register": second(b.pd.RegDMMR(dm, 0, 8, all))} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s after that: %v", what, err)
		}
	}
	other := openTest(t, Config{Address: b.ctx.Addr()})
	must(other.AllocDM(MaxDMSize-8, 0))(t) // the end of the context frees it
	if err := second(b.ctx.AllocDM(9, 0)); !errors.Is(err, ErrFull) {
		t.Errorf("more than another context of the device has left: %v", err)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	if err := second(other.AllocDM(MaxDMSize, 0)); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed context: %v", err)
	}
	must(b.ctx.AllocDM(MaxDMSize, 0))(t) // likewise
	if err := second(b.ctx.AllocDM(1, 0)); !errors.Is(err, ErrFull) {
		t.Errorf("more than the device has, after the refusal of a closed context: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }
