package nldev

import (
	"golang.org/x/sys/unix"
)

// find returns the device that the request names by its index; EINVAL.
func (c *call) find() (*Device, error) {
	if err := c.parse(); err != nil {
		return nil, err
	}
	return c.named()
}

// named is find for attributes that were parsed.
func (c *call) named() (*Device, error) {
	if c.attrs.has(attrDevIndex) {
		for _, d := range c.src.Devices() {
			if d.Index == c.attrs.u32(attrDevIndex) {
				return d, nil
			}
		}
	}
	return nil, unix.EINVAL
}

// port returns the port that the request names, 0 if it names none; EINVAL if there is no such
// port.
func (c *call) port() (uint32, error) {
	if !c.attrs.has(attrPortIndex) {
		return 0, nil
	}
	p := c.attrs.u32(attrPortIndex)
	if p < firstPort || p > ports {
		return 0, unix.EINVAL
	}
	return p, nil
}

// needPort is port for requests that must name one.
func (c *call) needPort() (uint32, error) {
	p, err := c.port()
	if err == nil && p == 0 {
		return 0, unix.EINVAL
	}
	return p, err
}

// handle is fill_nldev_handle.
func (m *builder) handle(d *Device) {
	m.u32(attrDevIndex, d.Index)
	m.text(attrDevName, d.Name)
}

// device is fill_dev_info.
func (m *builder) device(d *Device) {
	m.handle(d)
	m.u32(attrPortIndex, ports)
	m.u64(attrCapFlags, d.CapFlags)
	m.u64(attrNodeGUID, d.NodeGUID)
	m.u64(attrSysImageGUID, d.SysImageGUID)
	m.u8(attrDevNodeType, d.NodeType)
	m.u8(attrDevDIM, 0) // no moderation of interrupts
	m.text(attrDevProtocol, d.Protocol)
}

func getDevice(c *call) error {
	d, err := c.find()
	if err != nil {
		return err
	}
	m := c.begin(cmdGet)
	m.device(d)
	return c.send(m)
}

func dumpDevices(c *call) error {
	for _, d := range c.src.Devices() {
		c.add(func(b []byte) []byte {
			m := c.item(b)
			m.device(d)
			return m.end()
		})
	}
	return nil
}

// portInfo is fill_port_info.
func (m *builder) portInfo(d *Device) {
	m.handle(d)
	m.u32(attrPortIndex, firstPort)
	p := d.Port()
	m.u8(attrPortState, p.State)
	m.u8(attrPortPhysState, p.PhysState)
	if p.NetdevIndex != 0 {
		m.u32(attrNdevIndex, p.NetdevIndex)
		m.text(attrNdevName, p.Netdev)
	}
}

// getPort answers with the type of GET, as nldev_port_get_doit does.
func getPort(c *call) error {
	d, err := c.find()
	if err != nil {
		return err
	}
	if _, err := c.needPort(); err != nil {
		return err
	}
	m := c.begin(cmdGet)
	m.portInfo(d)
	return c.send(m)
}

func dumpPorts(c *call) error {
	d, err := c.find()
	if err != nil {
		return err
	}
	c.add(func(b []byte) []byte {
		m := c.item(b)
		m.portInfo(d)
		return m.end()
	})
	return nil
}

// getSystem is nldev_sys_get_doit of a system that has no events to monitor. Pages of registered
// memory are shared with a child until one of the two writes: nothing pins them.
func getSystem(c *call) error {
	if err := c.parse(); err != nil {
		return err
	}
	m := c.begin(cmdSysGet)
	mode := uint8(netnsShared)
	if c.src.Exclusive() {
		mode = netnsExclusive
	}
	m.u8(attrSysNetnsMode, mode)
	m.u8(attrSysPrivilegedQKey, 0)
	m.u8(attrSysCopyOnFork, 1)
	return c.send(m)
}

// setSystem is nldev_set_sys_set_doit for the mode of network namespaces. It changes what getSystem
// answers, and nothing else: the daemon's devices belong to one namespace anyway.
func setSystem(c *call) error {
	if err := c.parse(); err != nil {
		return err
	}
	mode := c.attrs[attrSysNetnsMode]
	if mode == nil || mode[0] > netnsShared {
		return unix.EINVAL
	}
	c.src.SetExclusive(mode[0] == netnsExclusive)
	return nil
}

// getChardev is nldev_get_chardev.
func getChardev(c *call) error {
	if err := c.parse(); err != nil {
		return err
	}
	if !c.attrs.has(attrChardevType) {
		return unix.EINVAL
	}
	list, port := c.src.CharDevs(), uint32(0)
	if c.attrs.has(attrDevIndex) {
		d, err := c.named()
		if err != nil {
			return err
		}
		if port, err = c.port(); err != nil {
			return err
		}
		list = d.CharDevs
	} else if c.attrs.has(attrPortIndex) {
		return unix.EINVAL
	}
	typ := c.attrs.text(attrChardevType)
	for _, dev := range list {
		if dev.Type != typ {
			continue
		}
		if dev.Port != 0 && dev.Port != port {
			return unix.EINVAL // user_mad.c: ib_umad_get_nl_info
		}
		m := c.begin(cmdGetChardev)
		m.chardev(&dev)
		return c.send(m)
	}
	return unix.EOPNOTSUPP
}

func (m *builder) chardev(dev *CharDev) {
	if dev.DriverID != 0 {
		m.u32(attrUverbsDriverID, dev.DriverID)
	}
	m.u64(attrChardev, encodeDev(dev.Dev))
	m.u64(attrChardevABI, dev.ABI)
	m.text(attrChardevName, dev.Name)
}

// encodeDev is huge_encode_dev, which has the major number below the upper part of the minor.
func encodeDev(dev uint64) uint64 {
	major, minor := uint64(unix.Major(dev)), uint64(unix.Minor(dev))
	return minor&0xff | major<<8 | minor&^0xff<<12
}
