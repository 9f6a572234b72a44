package nldev

import "golang.org/x/sys/unix"

// getStatistic is nldev_stat_get_doit. Without a kind of resource it has the port's counters.
// This device binds no counters to queue pairs, and has none of regions, as rdma_rxe.
func getStatistic(c *call) error {
	d, err := c.find()
	if err != nil {
		return err
	}
	if !c.attrs.has(attrStatRes) {
		return portStatistic(c, d)
	}
	switch c.attrs.u32(attrStatRes) {
	case attrResQP:
		return counterMode(c, d)
	case attrResMR:
		return unix.EOPNOTSUPP
	default:
		return unix.EINVAL
	}
}

// statistic starts an answer about the port's counters.
func (c *call) statistic(command int, d *Device) *builder {
	m := c.begin(command)
	m.handle(d)
	m.u32(attrPortIndex, firstPort)
	return m
}

// hwCounters appends the table of counters. put appends what an entry has beside the name.
func (m *builder) hwCounters(d *Device, put func(i int, value uint64)) {
	table := m.nest(attrStatHWCounters)
	for i, one := range d.Counters() {
		entry := m.nest(attrStatHWCounterEntry)
		m.text(attrStatHWCounterName, one.Name)
		put(i, one.Value)
		m.endNest(entry)
	}
	m.endNest(table)
}

// portStatistic is stat_get_doit_default_counter.
func portStatistic(c *call, d *Device) error {
	if _, err := c.needPort(); err != nil {
		return err
	}
	m := c.statistic(cmdStatGet, d)
	m.hwCounters(d, func(_ int, value uint64) { m.u64(attrStatHWCounterValue, value) })
	return c.send(m)
}

// counterMode is stat_get_doit_qp: how counters are bound to queue pairs.
func counterMode(c *call, d *Device) error {
	if _, err := c.needPort(); err != nil {
		return err
	}
	if c.attrs.has(attrStatCounterID) {
		return unix.ENOENT
	}
	m := c.statistic(cmdStatGet, d)
	m.u32(attrStatMode, counterModeNone)
	return c.send(m)
}

// dumpStatistics is nldev_stat_get_dumpit. The tables of counters that are bound to resources
// are empty.
func dumpStatistics(c *call) error {
	if _, err := c.find(); err != nil {
		return err
	}
	if !c.attrs.has(attrStatRes) {
		return unix.EINVAL
	}
	switch c.attrs.u32(attrStatRes) {
	case attrResQP, attrResMR:
		return nil
	default:
		return unix.EINVAL
	}
}

// getCounterStatus is nldev_stat_get_counter_status_doit. No counter can be switched off.
func getCounterStatus(c *call) error {
	d, err := c.find()
	if err != nil {
		return err
	}
	if _, err := c.needPort(); err != nil {
		return err
	}
	m := c.statistic(cmdStatGetStatus, d)
	m.hwCounters(d, func(i int, _ uint64) { m.u32(attrStatHWCounterIndex, uint32(i)) })
	return c.send(m)
}
