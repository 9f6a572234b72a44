package mlx5

import (
	"encoding/binary"
	"io"

	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// OrphanMemory is the memory of a process, by addresses.
type OrphanMemory interface {
	io.ReaderAt
	io.WriterAt
	// Identity is that of the address space, as the daemon saw it. 0: it is not known.
	Identity() uint64
}

// OrphanFile is the file of a device that the process has open.
type OrphanFile interface {
	io.ReaderAt
	io.WriterAt
	// Data returns the next part at or behind off that may have data. The error is io.EOF if there
	// is none.
	Data(off int64) (from, to int64, err error)
}

// FlushOrphan completes the work requests in the queues of a process whose daemon has ended, with
// WCFlushErr. It returns how many there were, and whether the process has such queues: then it can
// post more, and nothing tells it not to.
//
// What it reads is the program's. So it writes to the memory of this program only, and does a
// bounded amount of work, but it may block for ever.
func FlushOrphan(file OrphanFile, mem OrphanMemory) (flushed int, has bool) {
	o := orphan{mem: mem, identity: mem.Identity(), cqs: make(map[uint32]*orphanCQ), byQPN: make(map[uint32]*orphanQP)}
	if o.identity == 0 {
		return 0, false
	}
	o.find(file)
	for _, cq := range o.cqs {
		o.unnoted(cq)
	}
	for _, q := range o.qps {
		before := [2]uint16{q.done, q.taken}
		o.flush(q)
		if before != [2]uint16{q.done, q.taken} {
			b := binary.NativeEndian.AppendUint32(nil, uint32(q.done))
			b = binary.NativeEndian.AppendUint32(b, uint32(q.taken))
			if _, err := file.WriteAt(b, labelsAt+int64(q.index)*int64(labelSize)+sentAt); err != nil {
				break
			}
		}
	}
	return o.flushed, o.alive
}

// orphan is what a process has of a device without a daemon.
type orphan struct {
	mem      OrphanMemory
	identity uint64
	cqs      map[uint32]*orphanCQ
	qps      []*orphanQP
	byQPN    map[uint32]*orphanQP
	flushed  int
	alive    bool // the record of a queue pair was read
}

type orphanQP struct {
	label
	index       uint32
	done, taken uint16 // as sent and received, and what was flushed
}

type orphanCQ struct {
	label
	known      bool // the indices were read
	prod, cons uint32
}

// find reads the labels.
func (o *orphan) find(file OrphanFile) {
	var page [provider.PageSize]byte
	for off := int64(labelsAt); off < labelsAt+int64(labelBytes); off += provider.PageSize {
		data, _, err := file.Data(off)
		if off = max(data&^(provider.PageSize-1), off); err != nil || off >= labelsAt+int64(labelBytes) {
			return
		}
		if n, err := file.ReadAt(page[:], off); n < len(page) || err != nil {
			return
		}
		for at := 0; at < len(page); at += labelSize {
			o.look(page[at:at+labelSize], uint32(off-labelsAt+int64(at))/uint32(labelSize))
		}
	}
}

// look takes a label, if it is of this process and can be right.
func (o *orphan) look(raw []byte, index uint32) {
	b := uapi.Load[label](raw)
	if b.identity != o.identity || b.mask&(b.mask+1) != 0 {
		return
	}
	switch {
	case b.kind == labelCQ && b.mask <= consumerMask>>1 && (1<<b.user == cqeSize || 1<<b.user == 2*cqeSize):
		o.cqs[index] = &orphanCQ{label: b}
	case (b.kind == labelQP || b.kind == labelBothQP || b.kind == labelPartsQP) && b.mask < maxWQEBB && b.recvMask < maxRecvWR:
		q := &orphanQP{label: b, index: index, done: uint16(b.sent), taken: uint16(b.received)}
		o.qps = append(o.qps, q)
		o.byQPN[q.qpn] = q
	}
}

// flush completes what is in a queue pair.
func (o *orphan) flush(q *orphanQP) {
	var record [recordSize]byte
	if !o.read(record[:], q.record) {
		return
	}
	o.alive = true
	be := binary.BigEndian
	if cq := o.cq(q.recvCQ); cq != nil && q.kind != labelQP {
		posted := uint16(be.Uint32(record[qpRecordReceive:]))
		if int(posted-q.taken) <= int(q.recvMask)+1 {
			for ; q.taken != posted; q.taken++ {
				if !o.push(cq, q, idReceive, 0, q.taken) {
					break
				}
			}
		}
	}
	cq, posted := o.cq(q.sendCQ), uint16(be.Uint32(record[qpRecordSend:]))
	if cq == nil || int(posted-q.done) > int(q.mask)+1 {
		return
	}
	for q.done != posted {
		blocks, op := o.request(q, q.done)
		if blocks == 0 || blocks > posted-q.done || !o.push(cq, q, 0, op, q.done) {
			return
		}
		q.done += blocks
	}
}

// unnoted reads the completions that the daemon wrote and had not noted when it was killed. The
// program may have polled them, and have posted more.
func (o *orphan) unnoted(cq *orphanCQ) {
	for i := range min(cq.mask+1, cqesAtOnce) {
		var b [cqeSize]byte
		at := cq.sent + i
		if !o.read(b[:], cq.slot(at)) || !cq.written(b[cqeOwner], at) {
			return
		}
		q := o.byQPN[binary.BigEndian.Uint32(b[cqeOpQPN:])&wire.QPNMask]
		if q == nil {
			continue
		}
		counter := binary.BigEndian.Uint16(b[cqeCounter:])
		switch b[cqeOwner] & opMask {
		case opOwner(cqeReq, 0), opOwner(cqeReqErr, 0):
			forward(&q.done, o.behind(q, counter))
		case opOwner(cqeResize, 0):
		case opOwner(cqeRespErr, 0):
			if q.kind != labelQP {
				forward(&q.taken, counter+1)
			}
		default: // of a receive
			switch q.kind {
			case labelBothQP:
				forward(&q.taken, counter+1)
			case labelPartsQP: // strides of the request may be left
				forward(&q.taken, binary.BigEndian.Uint16(b[cqeWQE:]))
			default: // it receives nothing
			}
		}
	}
}

// forward moves an index, but never back. The next look reads the first completions of the keeper
// again, and the keeper has noted later ones.
func forward(at *uint16, to uint16) {
	if int16(to-*at) > 0 {
		*at = to
	}
}

// behind returns the index behind a request that has completed. The program may have posted another
// one in its place, but not in that of the next request, which has not completed.
func (o *orphan) behind(q *orphanQP, counter uint16) uint16 {
	if n, _ := o.request(q, counter); n != 0 {
		return counter + n
	}
	for n := range uint16(maxSendBytes / blockSize) {
		at := counter + 1 + n
		if blocks, _ := o.request(q, at); blocks != 0 {
			return at
		}
	}
	return counter + 1
}

// request returns how many blocks the request with an index has, and its opcode. 0: it is not in
// the queue.
func (o *orphan) request(q *orphanQP, at uint16) (blocks uint16, op uint8) {
	var ctrl [ctrlSize]byte
	if !o.read(ctrl[:], q.buf+uint64(uint32(at)&q.mask)<<blockShift) {
		return 0, 0
	}
	d := decoder{qpn: q.qpn}
	return d.blocksOf(ctrl[:], at), ctrl[ctrlOp+3]
}

// push writes a completion, if there is room.
func (o *orphan) push(cq *orphanCQ, q *orphanQP, kind uint64, op uint8, counter uint16) bool {
	if cq.prod-cq.cons > cq.mask || o.flushed == mostFlushed {
		return false
	}
	wc := rxe.WC{ID: newID(kind, q.user, op, counter), Status: rxe.WCFlushErr, QPN: wire.QPN(q.qpn)}
	var b [cqeSize]byte
	encodeCQE(&b, &wc, q.user, ownerOf(cq.prod, cq.mask))
	va := cq.slot(cq.prod)
	if !o.write(b[:cqeOwner], va) || !o.write(b[cqeOwner:], va+cqeOwner) {
		return false
	}
	cq.prod++
	o.flushed++
	return true
}

func (cq *orphanCQ) slot(i uint32) uint64 {
	return cq.buf + uint64(i&cq.mask+1)<<cq.user - cqeSize
}

// written reports whether the place of the index i has the completion with that index, by its field
// op_own. Before that it has the one of the round before, or none.
func (cq *orphanCQ) written(owner uint8, i uint32) bool {
	return owner&opMask != opOwner(cqeInvalid, 0) && owner&1 == ownerOf(i, cq.mask)
}

// cq returns a completion queue whose indices are known: nil if there is none. The consumer is in
// the record. The producer is behind all completions of this round.
func (o *orphan) cq(index uint32) *orphanCQ {
	cq := o.cqs[index]
	if cq == nil || cq.known {
		return cq
	}
	delete(o.cqs, index) // until it is known to be right
	var record [recordSize]byte
	if !o.read(record[:], cq.record) {
		return nil
	}
	cq.cons = binary.BigEndian.Uint32(record[cqRecordConsumer:]) & consumerMask
	cq.prod = cq.cons
	for cq.prod-cq.cons <= cq.mask {
		var owner [1]byte
		if !o.read(owner[:], cq.slot(cq.prod)+cqeOwner) {
			return nil
		}
		if !cq.written(owner[0], cq.prod) {
			break
		}
		cq.prod++
	}
	cq.known = true
	o.cqs[index] = cq
	return cq
}

func (o *orphan) read(b []byte, va uint64) bool {
	n, err := o.mem.ReadAt(b, int64(va))
	return err == nil && n == len(b)
}

func (o *orphan) write(b []byte, va uint64) bool {
	n, err := o.mem.WriteAt(b, int64(va))
	return err == nil && n == len(b)
}
