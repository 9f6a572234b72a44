package uverbs

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// ahRes is an address handle.
type ahRes struct{ ah *rxe.AH }

func (r *ahRes) Destroy(*dispatch.Object, bool) error { return r.ah.Destroy() }

// thePort is the one that the device has.
const thePort = 1

// checkAddress is what the kernel asks of an address on RoCE before it asks the
// driver (verbs.c:rdma_fill_sgid_attr): a GRH, and a source GID.
func (d *Device) checkAddress(global bool, a *rxe.AHAttr) error {
	if a.PortNum != thePort {
		return kernel.Refuse(unix.EINVAL, "ah_attr.port_num", "is not 1", "use port 1, the only one")
	}
	if !global {
		// ibv_rc_pingpong sends the zero GID of an index that has none, and its peer then sets no
		// is_global.
		return d.withIndexes(kernel.Refuse(unix.EINVAL, "ah_attr", "has no GRH", "set is_global to 1, and sgid_index (-g; perftest: -x; qperf: -cm 1) to a GID"))
	}
	gid, err := d.rxe.QueryGID(int(a.SGIDIndex))
	if err != nil {
		return err
	}
	if gid.IsZero() {
		return d.withIndexes(kernel.Refuse(unix.ENODATA, "sgid_index", "has no GID", "choose one that has"))
	}
	return nil
}

// namedIndexes bounds the indexes that a remedy names.
const namedIndexes = 3

// withIndexes adds the indexes that have a GID to the remedy of a refusal.
func (d *Device) withIndexes(err error) error {
	var refusal *kernel.Refusal
	if !errors.As(err, &refusal) {
		return err
	}
	var list []string
	for _, e := range d.rxe.GIDEntries() {
		list = append(list, strconv.Itoa(e.Index))
	}
	switch n := len(list); {
	case n == 0:
		list = []string{"this device has none"}
	case n > namedIndexes:
		list = append(list[:namedIndexes], fmt.Sprintf("%d more", n-namedIndexes))
	}
	last := len(list) - 1
	or := ""
	if last > 0 {
		or = strings.Join(list[:last], ", ") + " or "
	}
	refusal.Fix += ": " + or + list[last]
	return err
}

func writeCreateAH(k *call, req *uapi.CreateAHReq) error {
	o, err := k.Make(uapi.ObjAH)
	if err != nil {
		return err
	}
	if req.Attr.PortNum != thePort {
		return kernel.Refuse(unix.EINVAL, "port_num", "is not 1", "use port 1, the only one")
	}
	pd, err := dispatch.Held[*pdRes](&k.Call, uapi.ObjPD, req.PDHandle)
	if err != nil {
		return err
	}
	attr := engineAH(&req.Attr)
	if err := k.f.dev.checkAddress(req.Attr.IsGlobal != 0, &attr); err != nil {
		return err
	}
	ah, err := pd.pd.CreateAH(attr)
	if err != nil {
		return err
	}
	o.Res = &ahRes{ah}
	if err := k.f.ctx.CreatedAH(udata{k}, ah); err != nil {
		return err
	}
	return dispatch.Respond(&k.Call, uapi.CreateAHResp{AHHandle: o.Handle})
}

// engineAH returns an address as the engine has it.
func engineAH(a *uapi.AHAttr) rxe.AHAttr {
	return rxe.AHAttr{
		DGID:         wire.GID(a.DGID),
		SGIDIndex:    a.SGIDIndex,
		FlowLabel:    a.FlowLabel & flowLabelMask,
		HopLimit:     a.HopLimit,
		TrafficClass: a.TrafficClass,
		PortNum:      a.PortNum,
		SL:           a.SL,
		StaticRate:   a.StaticRate,
	}
}

// flowLabelMask: what is beyond the 20 bits of the header is not looked at, as
// by rdma_rxe.
const flowLabelMask = 1<<20 - 1

// engineDest returns the address of a QP's path as the engine has it.
func engineDest(d *uapi.QPDest) rxe.AHAttr {
	return rxe.AHAttr{
		DGID:         wire.GID(d.DGID),
		SGIDIndex:    d.SGIDIndex,
		FlowLabel:    d.FlowLabel & flowLabelMask,
		HopLimit:     d.HopLimit,
		TrafficClass: d.TrafficClass,
		PortNum:      d.PortNum,
		SL:           d.SL,
		StaticRate:   d.StaticRate,
	}
}

// destOf is the reverse; addresses on RoCE are always global (rxe_av_to_attr).
func destOf(a *rxe.AHAttr) uapi.QPDest {
	return uapi.QPDest{
		DGID:         a.DGID,
		FlowLabel:    a.FlowLabel,
		SGIDIndex:    a.SGIDIndex,
		HopLimit:     a.HopLimit,
		TrafficClass: a.TrafficClass,
		SL:           a.SL,
		StaticRate:   a.StaticRate,
		IsGlobal:     1,
		PortNum:      a.PortNum,
	}
}
