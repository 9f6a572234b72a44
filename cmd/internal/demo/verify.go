package demo

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"github.com/gorxe/gorxe/verbsapi"
)

// verifySizes are an empty message, one with each kind of padding, and one below,
// at, above and at several times the largest path MTU.
var verifySizes = []int{0, 1, 2, 3, 4, minPlainSend, 4095, 4096, 4097, 3 * 4096, verifyBuffer}

const (
	verifyBuffer = 100_001
	immediate    = 0x600d_da7a

	// Wireshark takes a plain SEND of fewer bytes for a broken header of RPC over
	// RDMA and calls it malformed. It should not look as if the demo sent any, and
	// the other operations cover the small sizes.
	minPlainSend = 16
)

// verify does each operation once per size and compares both whole buffers with
// what they must hold.
func verify(ctx context.Context, p *pair, r *reporter) error {
	ops := []struct {
		name    string
		minimum int // bytes
		run     func(context.Context, *pair, int) error
	}{
		{"SEND", minPlainSend, sendOp(verbsapi.WRSend)},
		{"SEND with immediate", 0, sendOp(verbsapi.WRSendImm)},
		{"RDMA WRITE", 0, writeOp},
		{"RDMA WRITE with immediate", 0, sendOp(verbsapi.WRWriteImm)},
		{"RDMA READ", 0, readOp},
	}
	for _, op := range ops {
		r.progress("verifying %s", op.name)
		sizes := 0
		for i, size := range verifySizes {
			if size < op.minimum {
				continue
			}
			sizes++
			fill(p.a.mr.Bytes(), uint64(2*i+1))
			fill(p.b.mr.Bytes(), uint64(2*i+2))
			if err := op.run(ctx, p, size); err != nil {
				return fmt.Errorf("%s of %d bytes: %w", op.name, size, err)
			}
		}
		r.verified(op.name, fmt.Sprintf("%d sizes up to %d bytes", sizes, verifyBuffer))
	}
	r.progress("verifying atomics")
	if err := atomics(ctx, p); err != nil {
		return err
	}
	r.verified("FETCH AND ADD", "8 bytes: value before and after")
	r.verified("COMPARE AND SWAP", "8 bytes: with and without a match")
	return nil
}

// fill writes bytes that depend on seed and on their position, so that data
// which went to the wrong place shows.
func fill(buf []byte, seed uint64) {
	x := seed
	for i := range buf {
		// Knuth's MMIX generator; its high bits are the good ones.
		x = x*6364136223846793005 + 1442695040888963407
		buf[i] = byte(x >> 56)
	}
}

// complete posts wr on side a and waits for its completion.
func complete(ctx context.Context, p *pair, wr verbsapi.SendWR) error {
	if err := p.a.post(wr); err != nil {
		return err
	}
	_, err := p.a.wait(ctx, p.a.send, 1)
	return err
}

// transfer runs do, which must copy the first n bytes of src to dst and change
// nothing else.
func transfer(src, dst *side, n int, do func() error) error {
	from := bytes.Clone(src.mr.Bytes())
	to := bytes.Clone(dst.mr.Bytes())
	copy(to[:n], from)
	if err := do(); err != nil {
		return err
	}
	if err := compare("the source", src.mr.Bytes(), from); err != nil {
		return err
	}
	return compare("the destination", dst.mr.Bytes(), to)
}

func compare(what string, got, want []byte) error {
	if bytes.Equal(got, want) {
		return nil
	}
	for i := range want {
		if got[i] != want[i] {
			return fmt.Errorf("%w: byte %d of %s is %#02x, want %#02x", errMismatch, i, what, got[i], want[i])
		}
	}
	return fmt.Errorf("%w: %s has %d bytes, want %d", errMismatch, what, len(got), len(want))
}

// sendOp is an operation that takes a receive at the peer.
func sendOp(op verbsapi.WROpcode) func(context.Context, *pair, int) error {
	return func(ctx context.Context, p *pair, n int) error {
		return transfer(p.a, p.b, n, func() error {
			if err := p.b.postRecv(n); err != nil {
				return err
			}
			wr := p.a.request(op, n, p.b)
			wr.Imm = immediate
			if err := complete(ctx, p, wr); err != nil {
				return err
			}
			wcs, err := p.b.wait(ctx, p.b.recv, 1)
			if err != nil {
				return err
			}
			return checkReceive(wcs[0], op, n)
		})
	}
}

// checkReceive compares a receive's completion with the request that caused it.
func checkReceive(wc verbsapi.WC, op verbsapi.WROpcode, n int) error {
	if int(wc.ByteLen) != n {
		return fmt.Errorf("%w: the receive completed with %d bytes", errMismatch, wc.ByteLen)
	}
	withImm := op != verbsapi.WRSend
	if got := wc.Flags&verbsapi.WCWithImm != 0; got != withImm {
		return fmt.Errorf("%w: the receive completed with immediate data: %t, want %t", errMismatch, got, withImm)
	}
	if withImm && wc.Imm != immediate {
		return fmt.Errorf("%w: immediate data %#x, want %#x", errMismatch, wc.Imm, immediate)
	}
	return nil
}

func writeOp(ctx context.Context, p *pair, n int) error {
	return transfer(p.a, p.b, n, func() error {
		return complete(ctx, p, p.a.request(verbsapi.WRWrite, n, p.b))
	})
}

func readOp(ctx context.Context, p *pair, n int) error {
	return transfer(p.b, p.a, n, func() error {
		return complete(ctx, p, p.a.request(verbsapi.WRRead, n, p.b))
	})
}

// atomics checks what each atomic returns and what it leaves behind. Both are
// 64-bit words in host byte order.
func atomics(ctx context.Context, p *pair) error {
	const start, addend, swapped = 1<<63 + 41, 1 << 40, 0x0102030405060708
	cases := []struct {
		name          string
		op            verbsapi.WROpcode
		operand, swap uint64 // the addend, or the value compared with and the new one
		before, after uint64
	}{
		{"FETCH AND ADD", verbsapi.WRFetchAdd, addend, 0, start, start + addend},
		{"COMPARE AND SWAP that matches", verbsapi.WRCompareSwap, start + addend, swapped, start + addend, swapped},
		{"COMPARE AND SWAP that does not match", verbsapi.WRCompareSwap, start, 1, swapped, swapped},
	}
	target, result := p.b.mr.Bytes()[:8], p.a.mr.Bytes()[:8]
	binary.NativeEndian.PutUint64(target, start)
	for _, c := range cases {
		wr := p.a.request(c.op, 8, p.b)
		wr.CompareAdd, wr.Swap = c.operand, c.swap
		if err := complete(ctx, p, wr); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		if got := binary.NativeEndian.Uint64(result); got != c.before {
			return fmt.Errorf("%s: %w: it returned %#x, want %#x", c.name, errMismatch, got, c.before)
		}
		if got := binary.NativeEndian.Uint64(target); got != c.after {
			return fmt.Errorf("%s: %w: it left %#x, want %#x", c.name, errMismatch, got, c.after)
		}
	}
	return nil
}
