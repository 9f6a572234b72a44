package nldev

import (
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
)

// Caller is the program that sent a request.
type Caller struct {
	// NetAdmin reports whether it has CAP_NET_ADMIN over the network namespace of the devices.
	NetAdmin func() bool
}

// handler answers a request. Its error is a unix.Errno.
type handler func(c *call) error

// command is an entry of nldev_cb_table.
type command struct {
	admin bool    // refused without CAP_NET_ADMIN
	do    handler // of a request for one thing; nil: nothing is done
	dump  handler // of a request with NLM_F_DUMP; nil: EINVAL
}

// commands are those of client NLDEV. The handlers refer to it, so init fills it.
var commands [numCommands]command

func init() {
	commands = [numCommands]command{
		cmdGet:           {do: getDevice, dump: dumpDevices},
		cmdPortGet:       {do: getPort, dump: dumpPorts},
		cmdSysGet:        {do: getSystem},
		cmdGetChardev:    {do: getChardev},
		cmdResGet:        {do: getSummary, dump: dumpSummaries},
		cmdStatGet:       {do: getStatistic, dump: dumpStatistics},
		cmdStatGetStatus: {do: getCounterStatus},

		// These change something, or show more than this device has.
		cmdSet: {admin: true, do: refuse}, cmdNewLink: {admin: true, do: refuseLink}, cmdDelLink: {admin: true, do: refuse},
		cmdSysSet: {admin: true, do: setSystem}, cmdStatSet: {admin: true, do: refuse}, cmdStatDel: {admin: true, do: refuse},
		cmdNewDev: {admin: true, do: refuse}, cmdDelDev: {admin: true, do: refuse},
		cmdResQPGetRaw: {admin: true, do: refuse, dump: refuse}, cmdResCQGetRaw: {admin: true, do: refuse, dump: refuse},
		cmdResMRGetRaw: {admin: true, do: refuse, dump: refuse}, cmdResSRQGetRaw: {admin: true, do: refuse, dump: refuse},
	}
	for i := range kinds {
		k := &kinds[i]
		commands[k.command] = command{do: k.get, dump: k.dump}
	}
}

// refuse answers requests that nothing here can carry out.
func refuse(*call) error { return unix.EOPNOTSUPP }

// refuseLink answers a request for a new device.
func refuseLink(c *call) error {
	c.hint = "gorxe makes devices when it starts: gorxe run --device rxe0=eth0 takes the place of rdma link add rxe0 type rxe netdev eth0"
	return unix.EOPNOTSUPP
}

// call is one request, of which a program may send several at once.
type call struct {
	src    Source
	caller Caller
	req    *kernel.NetlinkRequest
	reply  kernel.NetlinkReply

	msg    message
	attrs  attrs
	page   []byte // the datagram of a dump that is being filled
	dumped bool   // there was a dump: another one has to wait

	badAttr int    // position of the attribute that the policy refuses; 0: none
	hint    string // what to do instead; empty: nothing is known
}

// errAnswered is the outcome of a request whose answer needs no NLMSG_ERROR (-EINTR in
// netlink_dump_start).
var errAnswered = errors.New("answered")

// Answer answers what a program sent, message by message (netlink.c: rdma_nl_rcv_skb).
func Answer(src Source, caller Caller, req *kernel.NetlinkRequest, reply kernel.NetlinkReply) {
	c := &call{src: src, caller: caller, req: req, reply: reply, dumped: req.Dumping}
	rest := req.Data
	for {
		m, after, ok := nextMessage(rest)
		if !ok {
			return
		}
		rest = after
		c.msg, c.badAttr, c.hint = m, 0, ""
		err := c.answer()
		if err == errAnswered || err == nil && m.flags()&unix.NLM_F_ACK == 0 {
			continue
		}
		c.ack(err)
	}
}

// answer is netlink.c: rdma_nl_rcv_msg.
func (c *call) answer() error {
	m := c.msg
	if m.flags()&unix.NLM_F_REQUEST == 0 && m.client() != clientLS || m.typ() < unix.NLMSG_MIN_TYPE {
		return nil
	}
	if m.client() != clientNLDEV || m.command() >= numCommands {
		return unix.EINVAL
	}
	cmd := &commands[m.command()]
	switch dumps := m.flags()&unix.NLM_F_DUMP != 0; {
	case cmd.do == nil && cmd.dump == nil:
		return unix.EINVAL
	case cmd.admin && !c.caller.NetAdmin():
		return unix.EPERM
	case dumps && cmd.dump == nil:
		return unix.EINVAL
	case dumps && c.dumped:
		return unix.EBUSY // one dump at a time (af_netlink.c: __netlink_dump_start)
	case dumps:
		return c.dump(cmd.dump)
	case cmd.do == nil:
		return nil
	default:
		return cmd.do(c)
	}
}

// parse reads the attributes; EINVAL.
func (c *call) parse() error {
	if bad, ok := c.attrs.parse(c.msg); !ok {
		c.badAttr = bad
		return unix.EINVAL
	}
	return nil
}

// begin starts the answer to a request for one thing.
func (c *call) begin(command int) *builder {
	return begin(nil, clientNLDEV<<clientShift|uint16(command), 0, c.msg.seq(), c.req.Port)
}

// send sends that answer.
func (c *call) send(m *builder) error {
	c.reply(m.end(), false)
	return nil
}

// dump makes the messages of a dump, and ends them with NLMSG_DONE, which has the dump's error.
func (c *call) dump(make handler) error {
	c.dumped, c.page = true, nil
	errno := int32(0)
	if err := make(c); err != nil {
		errno = -int32(errnoOf(err))
	}
	c.add(func(b []byte) []byte {
		m := begin(b, unix.NLMSG_DONE, unix.NLM_F_MULTI, c.msg.seq(), c.req.Port)
		m.b = binary.NativeEndian.AppendUint32(m.b, uint32(errno))
		return m.end()
	})
	c.reply(c.page, true)
	c.page = nil
	return errAnswered
}

// item starts a message of a dump behind what the buffer has.
func (c *call) item(b []byte) *builder {
	return begin(b, clientNLDEV<<clientShift|uint16(c.msg.command()), unix.NLM_F_MULTI, c.msg.seq(), c.req.Port)
}

// add appends a message to the dump, in the next datagram if this one is full.
func (c *call) add(build func(b []byte) []byte) {
	n := len(c.page)
	if n == 0 {
		c.page = make([]byte, 0, datagramSize)
	}
	c.page = build(c.page)
	if n > 0 && len(c.page) > datagramSize {
		next := append(make([]byte, 0, datagramSize), c.page[n:]...)
		c.reply(c.page[:n:n], true)
		c.page = next
	}
}

// errnoOf is the errno that an error stands for.
func errnoOf(err error) unix.Errno {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return unix.EIO
}

// The attributes of an extended acknowledgement (enum nlmsgerr_attrs).
const (
	errAttrMsg    = 1
	errAttrOffset = 2
)

// ack answers with NLMSG_ERROR, which is the acknowledgement if there is no error
// (af_netlink.c: netlink_ack).
func (c *call) ack(err error) {
	errno, flags := unix.Errno(0), uint16(0)
	if err != nil {
		errno = errnoOf(err)
	}
	quoted := c.msg
	if errno == 0 || c.req.CapAck {
		quoted = quoted[:unix.SizeofNlMsghdr]
		flags |= unix.NLM_F_CAPPED
	}
	extended := errno != 0 && (c.badAttr != 0 || c.hint != "") && c.req.ExtAck
	if extended {
		flags |= unix.NLM_F_ACK_TLVS
	}
	m := begin(nil, unix.NLMSG_ERROR, flags, c.msg.seq(), c.req.Port)
	m.b = binary.NativeEndian.AppendUint32(m.b, uint32(-int32(errno)))
	m.b = append(m.b, quoted...)
	switch {
	case !extended:
	case c.hint != "":
		m.pad()
		m.text(errAttrMsg, c.hint)
	default:
		m.pad()
		m.text(errAttrMsg, "Attribute failed policy validation")
		m.u32(errAttrOffset, uint32(c.badAttr))
	}
	c.reply(m.end(), false)
}
