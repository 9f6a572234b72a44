package fault

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/wire"
)

// key is a KEY=VALUE of a rule.
type key struct {
	name string
	is   string
	set  func(r *Rule, value string) error
	get  func(r *Rule) string // "" if it is not given
}

func findKey(name string) *key {
	for i := range keys {
		if keys[i].name == name {
			return &keys[i]
		}
	}
	return nil
}

// keys has every key.
var keys = append([]key{
	{"name", "a name for reports", func(r *Rule, v string) error {
		return word(&r.Name, v, 64)
	}, func(r *Rule) string { return r.Name }},
	{"scope", "session (the default): of this program and its children. device: of all programs; only root and the daemon's user may say so", func(r *Rule, v string) error {
		r.WholeDevice = v == "device"
		return choice(v, "session", "device")
	}, func(r *Rule) string {
		if r.WholeDevice {
			return "device"
		}
		return ""
	}},
	{"device", "the device's name, as rxe0 or mlx5_0", func(r *Rule, v string) error {
		if !strings.HasPrefix(v, "rxe") && !strings.HasPrefix(v, "mlx5_") {
			return errors.New("the name of a device begins with rxe or mlx5_")
		}
		return word(&r.Device, v, 63)
	}, func(r *Rule) string { return r.Device }},
	{"qp", "the number of the queue pair within the scope, or RC, UC or UD", setQP, func(r *Rule) string {
		if r.QP != 0 {
			return fmt.Sprintf("%#x", uint32(r.QP))
		}
		return r.Type
	}},
	{"peer", "the address of the other end", func(r *Rule, v string) error {
		a, err := netip.ParseAddr(v)
		if err != nil || a.IsUnspecified() || a.Zone() != "" {
			return errors.New("give the IPv4 or IPv6 address of one host, without a zone")
		}
		r.Peer = a.Unmap()
		return nil
	}, func(r *Rule) string {
		if r.Peer.IsValid() {
			return r.Peer.String()
		}
		return ""
	}},
	{"opcode", "of a packet: opcodes by the specification's names, with a bar between them; * stands for any letters, as in RC_SEND_*. Of a work request: its operation, as in enum ibv_wc_opcode: RDMA_WRITE, RECV", func(r *Rule, v string) error {
		r.Opcode = v
		if r.asked() != WherePacket {
			_, err := selectNames(v, "an operation", workNames)
			return err
		}
		_, err := parseOpcodes(v)
		return err
	}, func(r *Rule) string { return r.Opcode }},
	{"direction", "out: the sender is within the scope. in: the receiver is. either (the default)", func(r *Rule, v string) error {
		r.Direction = map[string]Direction{"out": Out, "in": In}[v]
		return choice(v, "out", "in", "either")
	}, func(r *Rule) string { return map[Direction]string{Out: "out", In: "in"}[r.Direction] }},
	{"size", "bytes of payload, as 4096 or 1-256", func(r *Rule, v string) error {
		lo, hi, ranged := strings.Cut(v, "-")
		r.Size = new(Range)
		err := number(&r.Size.Min, lo, 0, maxPayload)
		r.Size.Max = r.Size.Min
		if ranged && err == nil {
			err = number(&r.Size.Max, hi, 0, maxPayload)
		}
		if err == nil && r.Size.Max < r.Size.Min {
			err = errors.New("the range is empty: the first number is the larger one")
		}
		return err
	}, func(r *Rule) string {
		switch {
		case r.Size == nil:
			return ""
		case r.Size.Min == r.Size.Max:
			return strconv.FormatUint(r.Size.Min, 10)
		default:
			return fmt.Sprintf("%d-%d", r.Size.Min, r.Size.Max)
		}
	}},
	{"psn", "the packet sequence number", func(r *Rule, v string) error {
		var n uint64
		err := number(&n, v, 0, wire.PSNMask)
		r.PSN = new(wire.PSN)
		*r.PSN = wire.PSN(n)
		return err
	}, func(r *Rule) string {
		if r.PSN == nil {
			return ""
		}
		return fmt.Sprintf("%#x", uint32(*r.PSN))
	}},
	{"verb", "calls of libibverbs without ibv_, and of librdmacm, with a bar between them; * stands for any letters: create_qp|modify_qp, rdma_*", setVerb,
		func(r *Rule) string { return r.Verb }},
	{"pid", "the number of the process that opened the device", func(r *Rule, v string) error { return number(&r.PID, v, 1, 1<<22) },
		func(r *Rule) string { return count(r.PID) }},
	{"command", "the name of the program that opened the device, 15 letters at most, as ps -o comm shows it", func(r *Rule, v string) error { return word(&r.Command, v, 15) },
		func(r *Rule) string { return r.Command }},
	{"label", "the name that gorxe run --label gave the program", func(r *Rule, v string) error { return word(&r.Label, v, maxLabel) },
		func(r *Rule) string { return r.Label }},
	{"after", "spares the first N candidates, or those of a time, as 2s", func(r *Rule, v string) error {
		if strings.Trim(v, "0123456789") == "" {
			return positive(&r.After, v)
		}
		return duration(&r.AfterTime, v)
	}, func(r *Rule) string {
		if r.AfterTime != 0 {
			return span(r.AfterTime)
		}
		return count(r.After)
	}},
	{"until", "no candidates after a time, as 2s", func(r *Rule, v string) error { return duration(&r.Until, v) },
		func(r *Rule) string { return span(r.Until) }},
	{"first", "only the first N candidates", func(r *Rule, v string) error { return positive(&r.First, v) },
		func(r *Rule) string { return count(r.First) }},
	{"every", "only each Nth candidate", func(r *Rule, v string) error { return positive(&r.Every, v) },
		func(r *Rule) string { return count(r.Every) }},
	{"p", "only with this probability, as 0.01 or 1%", func(r *Rule, v string) error { return probability(&r.P, v) },
		func(r *Rule) string { return share(r.P) }},
	{"seed", "of what is drawn; 0 if not given, so each run draws the same", func(r *Rule, v string) error {
		return number(&r.Seed, v, 0, 1<<64-1)
	}, func(r *Rule) string { return count(r.Seed) }},
	{"count", "at most N candidates are hit", func(r *Rule, v string) error { return positive(&r.Count, v) },
		func(r *Rule) string { return count(r.Count) }},

	{"time", "as 5ms", func(r *Rule, v string) error { return duration(&r.Time, v) },
		func(r *Rule) string { return span(r.Time) }},
	{"jitter", "as 1ms", func(r *Rule, v string) error { return duration(&r.Jitter, v) },
		func(r *Rule) string { return span(r.Jitter) }},
	{"copies", "1 to 16", func(r *Rule, v string) error { return number(&r.Copies, v, 1, 16) },
		func(r *Rule) string { return count(r.Copies) }},
	{"by", "1 to 1024 packets", func(r *Rule, v string) error { return number(&r.By, v, 1, 1024) },
		func(r *Rule) string { return count(r.By) }},
	{"bit", "the number of a bit; 0 is the highest of the first byte", func(r *Rule, v string) error {
		r.Bit = new(uint64)
		return number(r.Bit, v, 0, 8*maxPacket-1)
	}, func(r *Rule) string { return optional(r.Bit) }},
	{"field", "icrc, or a header field: " + oneOf(fieldNames), setField, func(r *Rule) string { return r.Field }},
	{"value", "of the field; its lowest bit is inverted if no value is given", func(r *Rule, v string) error {
		r.Value = new(uint64)
		return number(r.Value, v, 0, 1<<64-1)
	}, func(r *Rule) string { return optional(r.Value) }},
	{"length", "12 to 4168 bytes", func(r *Rule, v string) error {
		return number(&r.Length, v, wire.BTHLen, maxPacket)
	}, func(r *Rule) string { return count(r.Length) }},
	{"rate", "as 1gbit or 100mbit, with the UDP and IP headers", setRate, rate},
	{"latency", "one way, as 1ms", func(r *Rule, v string) error { return duration(&r.Latency, v) },
		func(r *Rule) string { return span(r.Latency) }},
	{"loss", "the probability that the link loses a packet, as 0.1%", func(r *Rule, v string) error { return probability(&r.Loss, v) },
		func(r *Rule) string { return share(r.Loss) }},
	{"queue", "1 to 100000 packets", func(r *Rule, v string) error { return number(&r.Queue, v, 1, maxQueue) },
		func(r *Rule) string { return count(r.Queue) }},
	{"ecn", "1 to 100000 packets", func(r *Rule, v string) error { return number(&r.ECN, v, 1, maxQueue) },
		func(r *Rule) string { return count(r.ECN) }},
	{"times", "1 to 1000", func(r *Rule, v string) error { return number(&r.Times, v, 1, 1000) },
		func(r *Rule) string { return count(r.Times) }},
	{"gid", "the index of a GID", func(r *Rule, v string) error {
		r.GID = new(uint64)
		return number(r.GID, v, 0, 1023)
	}, func(r *Rule) string { return optional(r.GID) }},
	{"gbps", "1 to 1600 Gb/s", func(r *Rule, v string) error { return number(&r.Gbps, v, 1, 1600) },
		func(r *Rule) string { return count(r.Gbps) }},
	{"errno", "the name of an errno, as ENOMEM", setErrno, func(r *Rule) string {
		if r.Errno == 0 {
			return ""
		}
		return unix.ErrnoName(r.Errno)
	}},
	{"status", "an error of enum ibv_wc_status, as IBV_WC_RETRY_EXC_ERR", setStatus, func(r *Rule) string {
		if r.Status == 0 {
			return ""
		}
		return r.Status.String()
	}},
	{"event", "an asynchronous event, as IBV_EVENT_QP_FATAL", setEvent, func(r *Rule) string {
		if r.Event == 0 {
			return ""
		}
		return r.Event.String()
	}},
	{"vendor_err", "what the completion has as vendor_err", func(r *Rule, v string) error {
		r.VendorErr = new(uint64)
		return number(r.VendorErr, v, 0, 1<<32-1)
	}, func(r *Rule) string { return optional(r.VendorErr) }},
}, limitKeys()...)

const (
	maxPayload = 4096 // IBV_MTU_4096
	maxPacket  = maxPayload + 72
	maxTime    = time.Hour
	maxVerb    = 10 * time.Second // a delayed call occupies a thread
)

func setQP(r *Rule, v string) error {
	switch v {
	case "RC", "UC", "UD":
		r.Type = v
		return nil
	}
	var n uint64
	if err := number(&n, v, 1, wire.QPNMask-1); err != nil {
		return errors.New("give RC, UC or UD, or a queue pair number from 1 to 0xfffffe")
	}
	r.QP = wire.QPN(n)
	return nil
}

func setField(r *Rule, v string) error {
	if v != fieldICRC && findField(v) == nil {
		return fmt.Errorf("there is no such field: give %s", oneOf(append([]string{fieldICRC}, fieldNames...)))
	}
	r.Field = v
	return nil
}

// word sets a name of letters, digits and a few signs.
// maxLabel is the length of the longest label of a program, in bytes.
const maxLabel = 64

// CheckLabel reports whether a program may have a label.
func CheckLabel(label string) error {
	if err := word(new(string), label, maxLabel); err != nil {
		return fmt.Errorf("label %q: %w", label, err)
	}
	return nil
}

func word(to *string, v string, most int) error {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."
	if v == "" || len(v) > most || strings.Trim(v, letters) != "" {
		return fmt.Errorf("a name has letters, digits and \"_-.\", %d at most", most)
	}
	*to = v
	return nil
}

func choice(v string, words ...string) error {
	if slices.Contains(words, v) {
		return nil
	}
	return fmt.Errorf("give %s", oneOf(words))
}

// number sets a number from least to most, in any base of Go.
func number(to *uint64, v string, least, most uint64) error {
	n, err := strconv.ParseUint(v, 0, 64)
	if err != nil || n < least || n > most {
		return fmt.Errorf("give a number from %d to %d", least, most)
	}
	*to = n
	return nil
}

func positive(to *uint64, v string) error {
	if err := number(to, v, 1, 1<<62); err != nil {
		return errors.New("give a number, 1 or more")
	}
	return nil
}

func duration(to *time.Duration, v string) error {
	d, err := time.ParseDuration(v)
	if err != nil || d <= 0 || d > maxTime {
		return errors.New("give a time with its unit, as 500us, 5ms or 2s, and 1h at most")
	}
	*to = d
	return nil
}

func share(p float64) string {
	if p == 0 {
		return ""
	}
	return strconv.FormatFloat(p, 'g', -1, 64)
}

func count(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}

func span(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return strings.Replace(d.String(), "µ", "u", 1)
}

func optional(n *uint64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatUint(*n, 10)
}
