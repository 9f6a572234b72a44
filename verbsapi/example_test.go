package verbsapi_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/netip"

	"github.com/gorxe/gorxe/verbsapi"
	"github.com/gorxe/gorxe/wire"
)

// node is a device with the objects that each example needs.
type node struct {
	ctx *verbsapi.Context
	pd  *verbsapi.PD
	cq  *verbsapi.CQ
	qp  *verbsapi.QP
	mr  *verbsapi.MR
}

func check(err error) {
	if err != nil {
		log.Panic(err)
	}
}

// open opens a device on an address of this host, and makes a queue pair and a region of 4 KiB.
func open(address string, typ verbsapi.QPType) node {
	ctx, err := verbsapi.Open(verbsapi.Config{Address: netip.MustParseAddr(address)})
	check(err)
	pd, err := ctx.AllocPD()
	check(err)
	cq, err := ctx.CreateCQ(16, nil)
	check(err)
	mr, err := pd.RegMR(make([]byte, 4096), verbsapi.AccessLocalWrite|verbsapi.AccessRemoteWrite|verbsapi.AccessRemoteRead)
	check(err)
	qp, err := pd.CreateQP(verbsapi.QPInitAttr{Type: typ, SendCQ: cq, RecvCQ: cq,
		Cap: verbsapi.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1}})
	check(err)
	return node{ctx: ctx, pd: pd, cq: cq, qp: qp, mr: mr}
}

// connect connects two RC or UC queue pairs. Two hosts would exchange their Info over TCP.
func connect(a, b node) {
	infoA, err := a.qp.Info(100, 0)
	check(err)
	infoB, err := b.qp.Info(200, 0)
	check(err)
	check(a.qp.Connect(infoA, infoB, verbsapi.ConnectAttr{}))
	check(b.qp.Connect(infoB, infoA, verbsapi.ConnectAttr{}))
}

// next waits for the next completion of a node.
func next(n node) verbsapi.WC {
	var wcs [1]verbsapi.WC
	_, err := n.cq.Wait(context.Background(), wcs[:])
	check(err)
	return wcs[0]
}

// An RC queue pair delivers each message once and in order. SEND needs a receive at the peer.
func Example_rcSend() {
	a, b := open("127.0.71.1", verbsapi.QPRC), open("127.0.71.2", verbsapi.QPRC)
	defer func() { check(errors.Join(a.ctx.Close(), b.ctx.Close())) }()
	connect(a, b)

	_, err := b.qp.PostRecv([]verbsapi.RecvWR{{ID: 1, SGL: []verbsapi.SGE{b.mr.SGE(0, 64)}}})
	check(err)
	n := copy(a.mr.Bytes(), "hello")
	_, err = a.qp.PostSend([]verbsapi.SendWR{{ID: 2, Op: verbsapi.WRSend, Flags: verbsapi.SendSignaled,
		SGL: []verbsapi.SGE{a.mr.SGE(0, n)}}})
	check(err)

	received := next(b)
	fmt.Printf("%s: %q\n", verbsapi.WCStatusStr(received.Status), b.mr.Bytes()[:received.ByteLen])
	fmt.Println("the sender's completion:", next(a).ID)
	// Output:
	// success: "hello"
	// the sender's completion: 2
}

// RDMA WRITE and READ name the peer's memory by address and rkey. The peer posts nothing and gets
// no completion.
func Example_rcWriteRead() {
	a, b := open("127.0.71.3", verbsapi.QPRC), open("127.0.71.4", verbsapi.QPRC)
	defer func() { check(errors.Join(a.ctx.Close(), b.ctx.Close())) }()
	connect(a, b)

	copy(a.mr.Bytes(), "written")
	_, err := a.qp.PostSend([]verbsapi.SendWR{
		{ID: 1, Op: verbsapi.WRWrite, Flags: verbsapi.SendSignaled, SGL: []verbsapi.SGE{a.mr.SGE(0, 7)},
			RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()},
		{ID: 2, Op: verbsapi.WRRead, Flags: verbsapi.SendSignaled, SGL: []verbsapi.SGE{a.mr.SGE(100, 7)},
			RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()},
	})
	check(err)
	for range 2 {
		wc := next(a)
		fmt.Println(wc.ID, verbsapi.WCStatusStr(wc.Status))
	}
	fmt.Printf("%s, read back: %s\n", b.mr.Bytes()[:7], a.mr.Bytes()[100:107])
	// Output:
	// 1 success
	// 2 success
	// written, read back: written
}

// A UC queue pair sends without acknowledgements: a lost message is lost, and the sender's
// completion says only that it was sent.
func Example_uc() {
	a, b := open("127.0.71.5", verbsapi.QPUC), open("127.0.71.6", verbsapi.QPUC)
	defer func() { check(errors.Join(a.ctx.Close(), b.ctx.Close())) }()
	connect(a, b)

	// WRITE with immediate data takes a receive without memory
	_, err := b.qp.PostRecv([]verbsapi.RecvWR{{ID: 1}})
	check(err)
	copy(a.mr.Bytes(), "unconfirmed")
	_, err = a.qp.PostSend([]verbsapi.SendWR{{ID: 2, Op: verbsapi.WRWriteImm, Imm: 42, SGL: []verbsapi.SGE{a.mr.SGE(0, 11)},
		RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}})
	check(err)
	wc := next(b)
	fmt.Printf("%d bytes with immediate %d: %s\n", wc.ByteLen, wc.Imm, b.mr.Bytes()[:wc.ByteLen])
	// Output: 11 bytes with immediate 42: unconfirmed
}

// A UD queue pair sends datagrams of at most one MTU to any queue pair. An address handle and a
// Q_Key go with each. The receiver finds a GRH of 40 bytes before the data.
func Example_ud() {
	const qkey = 0x1234
	a, b := open("127.0.71.7", verbsapi.QPUD), open("127.0.71.8", verbsapi.QPUD)
	defer func() { check(errors.Join(a.ctx.Close(), b.ctx.Close())) }()
	check(errors.Join(a.qp.InitUD(qkey, 0), b.qp.InitUD(qkey, 0)))
	ah, err := a.pd.CreateAH(verbsapi.AHAttr{DGID: wire.GIDFromAddr(b.ctx.Addr()), PortNum: 1})
	check(err)

	_, err = b.qp.PostRecv([]verbsapi.RecvWR{{ID: 1, SGL: []verbsapi.SGE{b.mr.SGE(0, 64+verbsapi.GRHLen)}}})
	check(err)
	n := copy(a.mr.Bytes(), "datagram")
	_, err = a.qp.PostSend([]verbsapi.SendWR{{ID: 2, Op: verbsapi.WRSend, SGL: []verbsapi.SGE{a.mr.SGE(0, n)},
		AH: ah, RemoteQPN: b.qp.Num(), RemoteQKey: qkey}})
	check(err)
	wc := next(b)
	fmt.Printf("%s, from the sender's queue pair: %v\n", b.mr.Bytes()[verbsapi.GRHLen:wc.ByteLen], wc.SrcQP == a.qp.Num())
	// Output: datagram, from the sender's queue pair: true
}

// A shared receive queue serves several queue pairs.
func ExamplePD_CreateSRQ() {
	a, b := open("127.0.71.9", verbsapi.QPRC), open("127.0.71.10", verbsapi.QPRC)
	defer func() { check(errors.Join(a.ctx.Close(), b.ctx.Close())) }()
	srq, err := b.pd.CreateSRQ(verbsapi.SRQAttr{MaxWR: 8, MaxSGE: 1})
	check(err)
	b.qp, err = b.pd.CreateQP(verbsapi.QPInitAttr{Type: verbsapi.QPRC, SendCQ: b.cq, RecvCQ: b.cq, SRQ: srq,
		Cap: verbsapi.QPCap{MaxSendWR: 4, MaxSendSGE: 1}})
	check(err)
	connect(a, b)

	_, err = srq.PostRecv([]verbsapi.RecvWR{{ID: 7, SGL: []verbsapi.SGE{b.mr.SGE(0, 64)}}})
	check(err)
	n := copy(a.mr.Bytes(), "shared")
	_, err = a.qp.PostSend([]verbsapi.SendWR{{Op: verbsapi.WRSend, SGL: []verbsapi.SGE{a.mr.SGE(0, n)}}})
	check(err)
	wc := next(b)
	fmt.Printf("receive %d: %s\n", wc.ID, b.mr.Bytes()[:wc.ByteLen])
	// Output: receive 7: shared
}

// A call that is refused returns an error that unwraps to a sentinel, and names the argument. A
// work request that fails on its way has a status in its completion, and the queue pair is then in
// the state ERR.
func Example_errors() {
	a, b := open("127.0.71.11", verbsapi.QPRC), open("127.0.71.12", verbsapi.QPRC)
	defer func() { check(errors.Join(a.ctx.Close(), b.ctx.Close())) }()

	_, err := a.ctx.CreateCQ(-1, nil)
	var refused *verbsapi.OpError
	fmt.Println(errors.Is(err, verbsapi.ErrInvalid), errors.As(err, &refused) && refused.Arg != "")

	connect(a, b)
	_, err = a.qp.PostSend([]verbsapi.SendWR{{ID: 1, Op: verbsapi.WRWrite, Flags: verbsapi.SendSignaled, SGL: []verbsapi.SGE{a.mr.SGE(0, 8)},
		RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey() + 1}})
	check(err)
	wc := next(a)
	fmt.Println(verbsapi.WCStatusStr(wc.Status))
	fmt.Println("state ERR:", a.qp.State() == verbsapi.QPErr)
	// Output:
	// true true
	// remote access error
	// state ERR: true
}

// With XRC one queue pair reaches all shared receive queues of a device: each request names one.
func Example_xrc() {
	a, b := open("127.0.71.21", verbsapi.QPRC), open("127.0.71.22", verbsapi.QPRC)
	defer func() { check(errors.Join(a.ctx.Close(), b.ctx.Close())) }()
	domain, err := b.ctx.OpenXRCD(nil) // programs in one process share a domain by a file
	check(err)
	b.qp, err = domain.CreateTarget()
	check(err)
	a.qp, err = a.pd.CreateQP(verbsapi.QPInitAttr{Type: verbsapi.QPXRCIni, SendCQ: a.cq,
		Cap: verbsapi.QPCap{MaxSendWR: 4, MaxSendSGE: 1}})
	check(err)
	connect(a, b)

	for i := range 2 {
		srq, err := b.ctx.CreateSRQEx(verbsapi.SRQInitAttrEx{Type: verbsapi.SRQXRC, PD: b.pd, XRCD: domain, CQ: b.cq,
			SRQAttr: verbsapi.SRQAttr{MaxWR: 1, MaxSGE: 1}})
		check(err)
		_, err = srq.PostRecv([]verbsapi.RecvWR{{ID: uint64(i), SGL: []verbsapi.SGE{b.mr.SGE(0, 64)}}})
		check(err)
		number, err := srq.Num()
		check(err)
		n := copy(a.mr.Bytes(), fmt.Sprint("to queue ", i))
		_, err = a.qp.PostSend([]verbsapi.SendWR{{Op: verbsapi.WRSend, XRCSRQN: number, SGL: []verbsapi.SGE{a.mr.SGE(0, n)}}})
		check(err)
		received := next(b)
		fmt.Printf("receive %d: %q\n", received.ID, b.mr.Bytes()[:received.ByteLen])
	}
	// Output:
	// receive 0: "to queue 0"
	// receive 1: "to queue 1"
}

// raw opens a device with a queue pair for whole Ethernet frames, which can send.
func raw(address string) node {
	n := open(address, verbsapi.QPRC)
	var err error
	n.qp, err = n.pd.CreateQP(verbsapi.QPInitAttr{Type: verbsapi.QPRaw, SendCQ: n.cq, RecvCQ: n.cq,
		Cap: verbsapi.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInlineData: 64}})
	check(err)
	check(n.qp.Activate())
	return n
}

// segment is an Ethernet frame with a TCP segment, without checksums.
func segment(from, to node, port byte, payload string) []byte {
	dst, src := to.ctx.MAC(), from.ctx.MAC()
	// Ethernet, IPv4, TCP from port 32,768 + port to 80
	f := append(append(dst[:], src[:]...), 0x08, 0x00)
	f = append(f, 0x45, 0, 0, byte(40+len(payload)), 0, 0, 0, 0, 64, 6, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2)
	f = append(f, 0x80, port, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0)
	return append(f, payload...)
}

// A queue pair for raw packets gets the frames that a flow takes. A counters object counts them.
func Example_flowCounters() {
	a, b := raw("127.0.71.31"), raw("127.0.71.32")
	defer func() { check(errors.Join(a.ctx.Close(), b.ctx.Close())) }()
	counters, err := b.ctx.CreateCounters()
	check(err)
	check(counters.AttachPointFlow(verbsapi.CounterPackets, 0))
	check(counters.AttachPointFlow(verbsapi.CounterBytes, 1))
	_, err = b.qp.CreateFlow(verbsapi.FlowAttr{Specs: []verbsapi.FlowSpec{verbsapi.FlowTo(b.ctx.MAC())}, Counters: counters})
	check(err)

	_, err = b.qp.PostRecv([]verbsapi.RecvWR{{ID: 1, SGL: []verbsapi.SGE{b.mr.SGE(0, 2048)}}})
	check(err)
	n := copy(a.mr.Bytes(), segment(a, b, 1, "hello"))
	_, err = a.qp.PostSend([]verbsapi.SendWR{{Op: verbsapi.WRSend, SGL: []verbsapi.SGE{a.mr.SGE(0, n)},
		Frame: verbsapi.FrameSend{Flags: verbsapi.FrameL3Sum | verbsapi.FrameL4Sum}}})
	check(err)
	wc := next(b)
	fmt.Printf("%s, checksums right: %v\n", b.mr.Bytes()[54:wc.ByteLen], wc.Flags&verbsapi.WCIPCsumOK != 0)
	values := make([]uint64, 2)
	check(counters.Read(values))
	fmt.Println(values[0], "frame,", values[1], "bytes")
	// Output:
	// hello, checksums right: true
	// 1 frame, 59 bytes
}

// Receive side scaling: a hash of addresses and ports chooses one of several work queues. Frames of
// one connection go to one queue.
func Example_rss() {
	a, b := raw("127.0.71.33"), raw("127.0.71.34")
	defer func() { check(errors.Join(a.ctx.Close(), b.ctx.Close())) }()
	var queues []*verbsapi.WQ
	for i := range 4 {
		w, err := b.ctx.CreateWQ(verbsapi.WQInitAttr{PD: b.pd, CQ: b.cq, MaxWR: 4, MaxSGE: 1})
		check(err)
		check(w.Modify(verbsapi.WQReady))
		for range 4 {
			_, err = w.PostRecv([]verbsapi.RecvWR{{ID: uint64(i), SGL: []verbsapi.SGE{b.mr.SGE(0, 2048)}}})
			check(err)
		}
		queues = append(queues, w)
	}
	table, err := b.ctx.CreateRWQIndTable(queues)
	check(err)
	hash := verbsapi.RXHash{Fields: verbsapi.HashSrcIPv4 | verbsapi.HashDstIPv4 | verbsapi.HashSrcTCP | verbsapi.HashDstTCP}
	for i := range hash.Key {
		// a key that gives both directions of a connection one hash
		hash.Key[i] = [2]byte{0x6d, 0x5a}[i%2]
	}
	qp, err := table.CreateQP(hash)
	check(err)
	_, err = qp.CreateFlow(verbsapi.FlowAttr{Specs: []verbsapi.FlowSpec{verbsapi.FlowTo(b.ctx.MAC())}})
	check(err)

	for _, port := range []byte{1, 2, 3, 1} {
		n := copy(a.mr.Bytes(), segment(a, b, port, "data"))
		_, err = a.qp.PostSend([]verbsapi.SendWR{{Op: verbsapi.WRSend, SGL: []verbsapi.SGE{a.mr.SGE(0, n)}}})
		check(err)
		wc := next(b)
		fmt.Printf("port %d: queue %d\n", 32768+int(port), wc.ID)
	}
	// Output:
	// port 32769: queue 0
	// port 32770: queue 3
	// port 32771: queue 2
	// port 32769: queue 0
}

// The device cuts a payload into TCP segments. The headers need no registered memory.
func Example_tso() {
	a, b := raw("127.0.71.35"), raw("127.0.71.36")
	defer func() { check(errors.Join(a.ctx.Close(), b.ctx.Close())) }()
	_, err := b.qp.CreateFlow(verbsapi.FlowAttr{Specs: []verbsapi.FlowSpec{verbsapi.FlowTo(b.ctx.MAC())}})
	check(err)
	for i := range 3 {
		_, err = b.qp.PostRecv([]verbsapi.RecvWR{{SGL: []verbsapi.SGE{b.mr.SGE(1024*i, 1024)}}})
		check(err)
	}

	n := copy(a.mr.Bytes(), "a payload of 25 characters")
	builder := a.qp.Ex()
	builder.WRStart()
	builder.WRSendTSO(segment(a, b, 1, ""), 10)
	builder.WRSetSGE(a.mr.LKey(), a.mr.Addr(), uint32(n))
	check(builder.WRComplete())
	for i := range 3 {
		wc := next(b)
		fmt.Printf("%q\n", b.mr.Bytes()[1024*i+54:1024*i+int(wc.ByteLen)])
	}
	// Output:
	// "a payload "
	// "of 25 char"
	// "acters"
}
