package verbsapi

import (
	"bytes"
	"testing"
)

func TestSendRecv(t *testing.T) {
	ctx := testContext(t)
	a, b := newPair(t, endConfig{}, ConnectAttr{})
	fill(a.buf[:5000], 1)
	b.recv(7, 100, 6000)
	a.post(SendWR{ID: 1, Op: WRSend, SGL: []SGE{a.mr.SGE(0, 5000)}})
	a.expect(ctx, 1, WCSuccess)
	wc := b.expect(ctx, 7, WCSuccess)
	if wc.Opcode != WCRecv || wc.ByteLen != 5000 || wc.QPN != b.qp.Num() {
		t.Errorf("completion %+v", wc)
	}
	if !bytes.Equal(a.buf[:5000], b.buf[100:5100]) {
		t.Error("the data differ")
	}
}
