package nldev

import (
	"slices"

	"golang.org/x/sys/unix"
)

// resource is one entry of a table of resources.
type resource interface {
	// number is what a request for one resource names.
	number() uint32
	// put appends what the entry has. admin says that the caller may see keys.
	put(m *builder, admin bool)
}

// kind is an entry of nldev.c: fill_entries.
type kind struct {
	name         string // in the summary
	command      int
	table, entry uint16 // attributes of a dump
	id           int    // attribute of a request for one
	perPort      bool   // a request for one names its port, too
	list         func(r *Resources) []resource
}

// kinds are in the order of enum rdma_restrack_type.
var kinds = []kind{
	{"pd", cmdResPDGet, attrResPD, attrResPDEntry, attrResPDN, false, func(r *Resources) []resource { return listed(r.PDs) }},
	{"cq", cmdResCQGet, attrResCQ, attrResCQEntry, attrResCQN, false, func(r *Resources) []resource { return listed(r.CQs) }},
	{"qp", cmdResQPGet, attrResQP, attrResQPEntry, attrResLQPN, true, func(r *Resources) []resource { return listed(r.QPs) }},
	{"cm_id", cmdResCMIDGet, attrResCMID, attrResCMIDEntry, attrResCMIDN, true, func(r *Resources) []resource { return listed(r.CMIDs) }},
	{"mr", cmdResMRGet, attrResMR, attrResMREntry, attrResMRN, false, func(r *Resources) []resource { return listed(r.MRs) }},
	{"ctx", cmdResCtxGet, attrResCtx, attrResCtxEntry, attrResCtxN, false, func(r *Resources) []resource { return listed(r.Contexts) }},
	{"srq", cmdResSRQGet, attrResSRQ, attrResSRQEntry, attrResSRQN, false, func(r *Resources) []resource { return listed(r.SRQs) }},
}

// listed makes a list of entries of one kind.
func listed[T any, P interface {
	*T
	resource
}](of []T) []resource {
	list := make([]resource, len(of))
	for i := range of {
		list[i] = P(&of[i])
	}
	return list
}

// get answers a request for one resource (res_get_common_doit).
func (k *kind) get(c *call) error {
	d, err := c.find()
	if err != nil {
		return err
	}
	if !c.attrs.has(k.id) {
		return unix.EINVAL
	}
	port, err := c.port()
	if err != nil {
		return err
	}
	if k.perPort != (port != 0) {
		return unix.EINVAL
	}
	for _, r := range k.list(c.src.Resources(d)) {
		if r.number() == c.attrs.u32(k.id) {
			m := c.begin(k.command)
			m.handle(d)
			r.put(m, c.caller.NetAdmin())
			return c.send(m)
		}
	}
	return unix.ENOENT
}

// dump answers a request for all of a device (res_get_common_dumpit). A message has as many
// entries as a datagram has room for.
func (k *kind) dump(c *call) error {
	d, err := c.find()
	if err != nil {
		return err
	}
	port, err := c.port()
	if err != nil {
		return err
	}
	list, admin := k.list(c.src.Resources(d)), c.caller.NetAdmin()
	if port != 0 {
		list = slices.DeleteFunc(list, func(r resource) bool { id, ok := r.(*CMID); return ok && !id.Bound })
	}
	for len(list) > 0 {
		m := c.item(make([]byte, 0, datagramSize))
		m.handle(d)
		table := m.nest(k.table)
		n := 0
		for _, r := range list {
			at := len(m.b)
			entry := m.nest(k.entry)
			r.put(m, admin)
			m.endNest(entry)
			if n > 0 && len(m.b) > datagramSize {
				m.b = m.b[:at]
				break
			}
			n++
		}
		m.endNest(table)
		list = list[n:]
		full := m.end()
		c.add(func(b []byte) []byte { return append(b, full...) })
	}
	return nil
}

// getSummary is nldev_res_get_doit.
func getSummary(c *call) error {
	d, err := c.find()
	if err != nil {
		return err
	}
	m := c.begin(cmdResGet)
	c.summary(m, d)
	return c.send(m)
}

func dumpSummaries(c *call) error {
	for _, d := range c.src.Devices() {
		c.add(func(b []byte) []byte {
			m := c.item(b)
			c.summary(m, d)
			return m.end()
		})
	}
	return nil
}

// summary is fill_res_info.
func (c *call) summary(m *builder, d *Device) {
	m.handle(d)
	r := c.src.Resources(d)
	table := m.nest(attrResSummary)
	for i := range kinds {
		entry := m.nest(attrResSummaryEntry)
		m.text(attrResSummaryEntryName, kinds[i].name)
		m.u64(attrResSummaryEntryCurr, uint64(len(kinds[i].list(r))))
		m.endNest(entry)
	}
	m.endNest(table)
}

func (p *PD) number() uint32 { return p.ID }

// put is fill_res_pd_entry.
func (p *PD) put(m *builder, admin bool) {
	if admin {
		m.u32(attrResLocalDMALKey, 0) // a program's domain has none
	}
	m.u64(attrResUseCnt, p.Users)
	m.u32(attrResPDN, p.ID)
	m.u32(attrResCtxN, p.Context)
	m.u32(attrResPID, p.PID)
}

func (q *CQ) number() uint32 { return q.ID }

// put is fill_res_cq_entry.
func (q *CQ) put(m *builder, _ bool) {
	m.u32(attrResCQE, q.Entries)
	m.u64(attrResUseCnt, q.Users)
	m.u8(attrDevDIM, 0)
	m.u32(attrResCQN, q.ID)
	m.u32(attrResCtxN, q.Context)
	m.u32(attrResPID, q.PID)
}

func (q *QP) number() uint32 { return q.Num }

// migrated is IB_MIG_MIGRATED, the state of a queue pair without an alternate path.
const migrated = 0

// put is fill_res_qp_entry.
func (q *QP) put(m *builder, _ bool) {
	m.u32(attrPortIndex, firstPort)
	m.u32(attrResLQPN, q.Num)
	if q.PD != 0 { // an XRC target has none
		m.u32(attrResPDN, q.PD)
	}
	m.u32(attrResPID, q.PID)
	if q.Connected {
		m.u32(attrResRQPN, q.DestQPN)
		m.u32(attrResRQPSN, q.RecvPSN)
	}
	m.u32(attrResSQPSN, q.SendPSN)
	if q.Connected || q.XRC {
		m.u8(attrResPathMigState, migrated)
	}
	m.u8(attrResType, q.Type)
	m.u8(attrResState, q.State)
}

func (i *CMID) number() uint32 { return i.ID }

// put is fill_res_cm_id_entry.
func (i *CMID) put(m *builder, _ bool) {
	if i.Bound {
		m.u32(attrPortIndex, firstPort)
	}
	if i.QPN != 0 {
		m.u32(attrResLQPN, i.QPN)
		m.u8(attrResType, i.Type)
	}
	m.u32(attrResPS, uint32(i.Space))
	m.u8(attrResState, i.State)
	if i.Src != nil {
		m.bytes(attrResSrcAddr, i.Src)
	}
	if i.Dst != nil {
		m.bytes(attrResDstAddr, i.Dst)
	}
	m.u32(attrResCMIDN, i.ID)
	m.u32(attrResPID, i.PID)
}

func (r *MR) number() uint32 { return r.ID }

// put is fill_res_mr_entry.
func (r *MR) put(m *builder, admin bool) {
	if admin {
		m.u32(attrResRKey, r.RKey)
		m.u32(attrResLKey, r.LKey)
	}
	m.u64(attrResMRLen, r.Length)
	m.u32(attrResMRN, r.ID)
	m.u32(attrResPDN, r.PD)
	m.u32(attrResPID, r.PID)
}

func (x *Context) number() uint32 { return x.ID }

// put is fill_res_ctx_entry.
func (x *Context) put(m *builder, _ bool) {
	m.u32(attrResCtxN, x.ID)
	m.u32(attrResPID, x.PID)
}

func (s *SRQ) number() uint32 { return s.ID }

// xrcSRQ is IB_SRQT_XRC, the type of SRQs with a completion queue.
const xrcSRQ = 1

// put is fill_res_srq_entry. The queue pairs are listed as ranges of numbers.
func (s *SRQ) put(m *builder, _ bool) {
	m.u32(attrResSRQN, s.ID)
	m.u8(attrResType, s.Type)
	m.u32(attrResPDN, s.PD)
	if s.Type == xrcSRQ {
		m.u32(attrResCQN, s.CQ)
	}
	m.srqQPs(s.QPs)
	m.u32(attrResPID, s.PID)
}

// maxSRQRanges bounds the ranges of an SRQ's queue pairs, so that its entry fits a datagram.
const maxSRQRanges = 100

// srqQPs is fill_res_srq_qps. An SRQ without queue pairs has an empty table: iproute2 leaves out
// one that has none.
func (m *builder) srqQPs(qps []uint32) {
	table := m.nest(attrResQP)
	for range maxSRQRanges {
		if len(qps) == 0 {
			break
		}
		n := 1
		for n < len(qps) && qps[n] == qps[0]+uint32(n) {
			n++
		}
		entry := m.nest(attrResQPEntry)
		if n == 1 {
			m.u32(attrResLQPN, qps[0])
		} else {
			m.u32(attrMinRange, qps[0])
			m.u32(attrMaxRange, qps[n-1])
		}
		m.endNest(entry)
		qps = qps[n:]
	}
	m.endNest(table)
}
