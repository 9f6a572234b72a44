package interop

import (
	"fmt"
	"strconv"
	"testing"
)

// rekeyed is the next key of a window of type 2: the consumer owns its low byte.
func rekeyed(e *endpoint, rkey string) uint32 {
	e.Helper()
	n, err := strconv.ParseUint(rkey, 10, 32)
	if err != nil {
		e.Fatal(err)
	}
	return uint32(n)&^0xff | uint32(n+1)&0xff
}

// TestWindows: a bound window can be used, and one that is no longer bound cannot.
func TestWindows(t *testing.T) {
	use := func(a, b *endpoint, rkey uint32, status int, what string) {
		a.Helper()
		a.do("fill mr=0 off=0 len=100 seed=9")
		a.do("send qp=0 op=%d mr=0 off=0 len=100 raddr=%d rkey=%d", opWrite, b.addr+4096, rkey)
		a.polled(what, status)
		if status == statusSuccess {
			b.holds(what, 4096, 100, 9)
		}
	}
	bind2 := func(b *endpoint) uint32 {
		b.Helper()
		key := rekeyed(b, b.do("mw mw=0 type=2").fields["rkey"])
		b.do("send qp=0 op=%d mw=0 rkey=%d mr=0 off=4096 len=4096 access=%d", opBindMW, key, accessRemoteWrite)
		b.polled("bind", statusSuccess)
		return key
	}
	for _, f := range []family{ipv4, ipv6} {
		eachRole(t, "Memory windows, invalidation", "type 2, SEND with invalidate", f, func(tr *trial, server, client *machine) {
			a, b := tr.pair(client, server, f, 1<<16, path{kind: typeRC})
			for _, size := range []int{0, 16, 3079} {
				key := bind2(b)
				use(a, b, key, statusSuccess, "WRITE through the window")
				b.do("recv qp=0 mr=0 off=16384 len=4096")
				a.do("fill mr=0 off=0 len=%d seed=4", size)
				a.do("send qp=0 op=%d mr=0 off=0 len=%d inv=%d", opSendInv, size, key)
				a.polled("SEND with invalidate", statusSuccess)
				c := b.polled("SEND with invalidate", statusSuccess)
				if server.isKernel() && c.flags == kernelWithInv {
					tr.row.Note = "a WRITE after that: remote access error; " + defectInvalidate.String()
					c.flags = withInv
				}
				if c.bytes != size || c.flags != withInv || uint32(c.extra) != key {
					tr.Fatalf("completion %+v, want key %d", c, key)
				}
				b.holds("SEND with invalidate", 16384, size, 4)
				if size == 3079 {
					use(a, b, key, statusRemAccess, "WRITE through a window that was invalidated")
				}
			}
			if tr.row.Note == "" {
				tr.row.Note = "a WRITE after that: remote access error"
			}
		})
	}
	eachFamily(t, "Memory windows, invalidation", "type 2, invalidated locally", ipv4, func(tr *trial, server, client *machine) {
		a, b := tr.pair(client, server, tr.row.Family, 1<<16, path{kind: typeRC})
		key := bind2(b)
		use(a, b, key, statusSuccess, "WRITE through the window")
		b.do("send qp=0 op=%d inv=%d", opLocalInv, key)
		b.polled("LOCAL_INV", statusSuccess)
		use(a, b, key, statusRemAccess, "WRITE through a window that was invalidated")
		tr.row.Note = "a WRITE after that: remote access error"
	})
	for _, out := range []bool{false, true} {
		name := "type 1, bound and unbound"
		if out {
			name = "type 2, outside of its range"
		}
		eachFamily(t, "Memory windows, invalidation", name, ipv4, func(tr *trial, server, client *machine) {
			a, b := tr.pair(client, server, tr.row.Family, 1<<16, path{kind: typeRC})
			if out {
				key := bind2(b)
				a.do("send qp=0 op=%d mr=0 off=0 len=100 raddr=%d rkey=%d", opWrite, b.addr+8192-50, key)
				switch got := a.poll().status; {
				case got == statusRemAccess:
					tr.row.Note = "remote access error"
				case got == statusSuccess && b.machine.isKernel():
					// rxe_resp.c:check_rkey (6.1) checks the region only.
					tr.row.Note = defectWindow.String()
				default:
					tr.Fatalf("WRITE beyond the window: status %d", got)
				}
				return
			}
			b.do("mw mw=0 type=1")
			bind := func(size int) uint32 {
				key := b.do("bind qp=0 mw=0 mr=0 off=4096 len=%d access=%d", size, accessRemoteWrite).number(b, "rkey")
				b.polled(fmt.Sprintf("bind of %d", size), statusSuccess)
				return uint32(key)
			}
			key := bind(4096)
			use(a, b, key, statusSuccess, "WRITE through the window")
			bind(0)
			use(a, b, key, statusRemAccess, "WRITE through a window that was unbound")
			tr.row.Note = "a WRITE after that: remote access error"
		})
	}
}
