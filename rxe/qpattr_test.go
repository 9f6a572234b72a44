package rxe

import (
	"errors"
	"strings"
	"testing"
)

var (
	objTypes  = []QPType{QPRC, QPUC, QPUD, QPXRCIni, QPXRCTgt}
	objStates = []QPState{QPReset, QPInit, QPRTR, QPRTS, QPSQD, QPSQE, QPErr}
)

// specTransitions is the table of IBA 11.2.4.2 written a second time, by name and
// per service, to reveal mistakes in lifeCycle's shared masks. Each line is "from
// to: required; optional". A transition without a line does not exist.
var specTransitions = map[QPType]string{
	QPRC: `
RESET RESET: ;
RESET INIT: pkey_index port_num qp_access_flags;
INIT RESET: ;
INIT ERR: ;
INIT INIT: ; pkey_index port_num qp_access_flags
INIT RTR: ah_attr path_mtu dest_qp_num rq_psn max_dest_rd_atomic min_rnr_timer; alt_ah_attr qp_access_flags pkey_index
RTR RESET: ;
RTR ERR: ;
RTR RTS: sq_psn timeout retry_cnt rnr_retry max_rd_atomic; cur_qp_state alt_ah_attr qp_access_flags min_rnr_timer path_mig_state
RTS RESET: ;
RTS ERR: ;
RTS RTS: ; cur_qp_state alt_ah_attr qp_access_flags min_rnr_timer path_mig_state
RTS SQD: ; en_sqd_async_notify
SQD RESET: ;
SQD ERR: ;
SQD RTS: ; cur_qp_state alt_ah_attr qp_access_flags min_rnr_timer path_mig_state
SQD SQD: ; port_num ah_attr timeout retry_cnt rnr_retry max_rd_atomic max_dest_rd_atomic alt_ah_attr qp_access_flags pkey_index min_rnr_timer path_mig_state
ERR RESET: ;
ERR ERR: ;`,
	QPXRCIni: `
RESET RESET: ;
RESET INIT: pkey_index port_num qp_access_flags;
INIT RESET: ;
INIT ERR: ;
INIT INIT: ; pkey_index port_num qp_access_flags
INIT RTR: ah_attr path_mtu dest_qp_num rq_psn; alt_ah_attr qp_access_flags pkey_index
RTR RESET: ;
RTR ERR: ;
RTR RTS: sq_psn timeout retry_cnt rnr_retry max_rd_atomic; cur_qp_state alt_ah_attr qp_access_flags path_mig_state
RTS RESET: ;
RTS ERR: ;
RTS RTS: ; cur_qp_state alt_ah_attr qp_access_flags path_mig_state
RTS SQD: ; en_sqd_async_notify
SQD RESET: ;
SQD ERR: ;
SQD RTS: ; cur_qp_state alt_ah_attr qp_access_flags path_mig_state
SQD SQD: ; port_num ah_attr timeout retry_cnt rnr_retry max_rd_atomic alt_ah_attr qp_access_flags pkey_index path_mig_state
ERR RESET: ;
ERR ERR: ;`,
	QPXRCTgt: `
RESET RESET: ;
RESET INIT: pkey_index port_num qp_access_flags;
INIT RESET: ;
INIT ERR: ;
INIT INIT: ; pkey_index port_num qp_access_flags
INIT RTR: ah_attr path_mtu dest_qp_num rq_psn max_dest_rd_atomic min_rnr_timer; alt_ah_attr qp_access_flags pkey_index
RTR RESET: ;
RTR ERR: ;
RTR RTS: sq_psn timeout; cur_qp_state alt_ah_attr qp_access_flags min_rnr_timer path_mig_state
RTS RESET: ;
RTS ERR: ;
RTS RTS: ; cur_qp_state alt_ah_attr qp_access_flags min_rnr_timer path_mig_state
RTS SQD: ; en_sqd_async_notify
SQD RESET: ;
SQD ERR: ;
SQD RTS: ; cur_qp_state alt_ah_attr qp_access_flags min_rnr_timer path_mig_state
SQD SQD: ; port_num ah_attr timeout max_dest_rd_atomic alt_ah_attr qp_access_flags pkey_index min_rnr_timer path_mig_state
ERR RESET: ;
ERR ERR: ;`,
	QPUC: `
RESET RESET: ;
RESET INIT: pkey_index port_num qp_access_flags;
INIT RESET: ;
INIT ERR: ;
INIT INIT: ; pkey_index port_num qp_access_flags
INIT RTR: ah_attr path_mtu dest_qp_num rq_psn; alt_ah_attr qp_access_flags pkey_index
RTR RESET: ;
RTR ERR: ;
RTR RTS: sq_psn; cur_qp_state alt_ah_attr qp_access_flags path_mig_state
RTS RESET: ;
RTS ERR: ;
RTS RTS: ; cur_qp_state alt_ah_attr qp_access_flags path_mig_state
RTS SQD: ; en_sqd_async_notify
SQD RESET: ;
SQD ERR: ;
SQD RTS: ; cur_qp_state alt_ah_attr qp_access_flags path_mig_state
SQD SQD: ; ah_attr alt_ah_attr qp_access_flags pkey_index path_mig_state
SQE RESET: ;
SQE ERR: ;
SQE RTS: ; cur_qp_state qp_access_flags
ERR RESET: ;
ERR ERR: ;`,
	QPUD: `
RESET RESET: ;
RESET INIT: pkey_index port_num qkey;
INIT RESET: ;
INIT ERR: ;
INIT INIT: ; pkey_index port_num qkey
INIT RTR: ; pkey_index qkey
RTR RESET: ;
RTR ERR: ;
RTR RTS: sq_psn; cur_qp_state qkey
RTS RESET: ;
RTS ERR: ;
RTS RTS: ; cur_qp_state qkey
RTS SQD: ; en_sqd_async_notify
SQD RESET: ;
SQD ERR: ;
SQD RTS: ; cur_qp_state qkey
SQD SQD: ; pkey_index qkey
SQE RESET: ;
SQE ERR: ;
SQE RTS: ; cur_qp_state qkey
ERR RESET: ;
ERR ERR: ;`,
	QPRaw: `
RESET RESET: ;
RESET INIT: port_num;
INIT RESET: ;
INIT ERR: ;
INIT INIT: ;
INIT RTR: ;
RTR RESET: ;
RTR ERR: ;
RTR RTS: ;
RTS RESET: ;
RTS ERR: ;
RTS RTS: ;
RTS SQD: ;
SQD RESET: ;
SQD ERR: ;
SQD RTS: ;
SQD SQD: ;
SQE RESET: ;
SQE ERR: ;
SQE RTS: ;
ERR RESET: ;
ERR ERR: ;`,
}

func specOf(t *testing.T, typ QPType) map[transition]attrSet {
	t.Helper()
	states := make(map[string]QPState)
	for _, s := range objStates {
		states[s.String()] = s
	}
	mask := func(names string) (m QPAttrMask) {
		for _, n := range strings.Fields(names) {
			before := m
			for _, a := range attrNames {
				if a.name == n {
					m |= a.bit
				}
			}
			if m == before {
				t.Fatalf("no attribute %q", n)
			}
		}
		return m
	}
	spec := make(map[transition]attrSet)
	for line := range strings.Lines(strings.TrimSpace(specTransitions[typ])) {
		head, attrs, _ := strings.Cut(line, ":")
		required, optional, _ := strings.Cut(attrs, ";")
		from, to, _ := strings.Cut(head, " ")
		spec[transition{states[from], states[to]}] = attrSet{mask(required), mask(optional)}
	}
	return spec
}

func TestLifeCycleTable(t *testing.T) {
	for _, typ := range append(objTypes, QPRaw) {
		spec := specOf(t, typ)
		for _, from := range objStates {
			for _, to := range objStates {
				want, wantOK := spec[transition{from, to}]
				got, ok := attrsFor(typ, from, to)
				if ok != wantOK || (ok && got != want) {
					t.Errorf("%v %v to %v: %+v, %v; want %+v, %v", typ, from, to, got, ok, want, wantOK)
				}
			}
		}
	}
	if _, ok := attrsFor(7, QPReset, QPInit); ok {
		t.Error("a transition of an unknown type")
	}
}

// TestTransitions takes a QP of each type from each state to each state: with the
// required attributes, without each of them, and with each foreign one added. A
// refusal must name the attribute and change nothing.
func TestTransitions(t *testing.T) {
	d := newObjDev(t)
	pd := d.pd()
	for _, typ := range objTypes {
		for _, from := range objStates {
			if factsOf[typ].reliable && from == QPSQE {
				continue
			}
			for _, to := range objStates {
				q := d.qp(pd, typ)
				d.reach(q, from)
				d.tryTransition(q, from, to)
				d.must(q.Destroy())
			}
		}
	}
}

func (o *objDev) tryTransition(q *QP, from, to QPState) {
	o.t.Helper()
	set, ok := attrsFor(q.typ, from, to)
	if !ok {
		o.refused(q, to, QPAttrState, "qp_state")
		return
	}
	for _, a := range attrNames {
		switch {
		case a.bit == QPAttrState:
		case set.required&a.bit != 0:
			o.refused(q, to, QPAttrState|set.required&^a.bit, a.name)
		case set.optional&a.bit == 0:
			o.refused(q, to, QPAttrState|set.required|a.bit, a.name)
		}
	}
	a := objAttr()
	a.State, a.CurState = to, from
	supported := ^QPAttrAltPath
	if err := q.Modify(&a, QPAttrState|set.required|set.optional&supported); err != nil {
		o.t.Errorf("%v %v to %v with all optional attributes: %v", q.typ, from, to, err)
	}
	if q.State() != to {
		o.t.Errorf("%v %v to %v: now %v", q.typ, from, to, q.State())
	}
}

func (o *objDev) refused(q *QP, to QPState, mask QPAttrMask, arg string) {
	o.t.Helper()
	before, _, _ := q.Query()
	a := objAttr()
	a.State, a.CurState = to, before.State
	err := q.Modify(&a, mask)
	var op *OpError
	if !errors.Is(err, ErrInvalid) || !errors.As(err, &op) || op.Arg != arg {
		o.t.Errorf("%v %v to %v mask %x: %v, want one that names %s", q.typ, before.State, to, mask, err, arg)
	}
	if after, _, _ := q.Query(); after != before {
		o.t.Errorf("%v %v to %v: refusal changed %+v to %+v", q.typ, before.State, to, before, after)
	}
}

// RequiredMask names what ibv_modify_qp(3) lists for each step to RTS.
func TestRequiredMask(t *testing.T) {
	const (
		initRC = QPAttrState | QPAttrPKeyIndex | QPAttrPort | QPAttrAccessFlags
		rtrUC  = QPAttrState | QPAttrAV | QPAttrPathMTU | QPAttrDestQPN | QPAttrRQPSN
		rtsUC  = QPAttrState | QPAttrSQPSN
	)
	for typ, want := range map[QPType][3]QPAttrMask{
		QPRC: {initRC, rtrUC | QPAttrMaxDestRdAtomic | QPAttrMinRNRTimer,
			rtsUC | QPAttrTimeout | QPAttrRetryCnt | QPAttrRNRRetry | QPAttrMaxRdAtomic},
		QPUC: {initRC, rtrUC, rtsUC},
		QPUD: {QPAttrState | QPAttrPKeyIndex | QPAttrPort | QPAttrQKey, QPAttrState, rtsUC},
	} {
		for from := range QPRTS {
			if got := RequiredMask(typ, from, from+1); got != want[from] {
				t.Errorf("%v from %v: %#x, want %#x", typ, from, got, want[from])
			}
		}
	}
	if got := RequiredMask(QPRC, QPReset, QPRTS); got != 0 {
		t.Errorf("RESET to RTS: %#x, and there is no such transition", got)
	}
}
