package explain

import "github.com/gorxe/gorxe/rxe"

// Step is one step of the life cycle of a queue pair: what modify_qp needs, and what it may set, in
// the names of enum ibv_qp_attr_mask.
type Step struct{ Type, From, To, Needs, May string }

// Steps returns the life cycles of all types of queue pairs, as the engine's table has them.
func Steps() (list []Step) {
	for _, typ := range []rxe.QPType{rxe.QPRC, rxe.QPUC, rxe.QPUD} {
		for _, s := range rxe.Transitions(typ) {
			list = append(list, Step{typ.String(), s.From.String(), s.To.String(), flags(s.Required), flags(s.Optional)})
		}
	}
	return list
}

func flags(mask rxe.QPAttrMask) string {
	if mask == 0 {
		return "-"
	}
	return mask.String()
}
