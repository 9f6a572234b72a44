package uverbs

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/test/cabi"
)

// methodEnums are the enums of ib_user_ioctl_cmds.h, one for each object that has
// methods.
var methodEnums = map[string]uapi.ObjectType{
	"uverbs_methods_device":                  uapi.ObjDevice,
	"uverbs_methods_pd":                      uapi.ObjPD,
	"uverbs_methods_cq":                      uapi.ObjCQ,
	"uverbs_methods_qp":                      uapi.ObjQP,
	"uverbs_methods_srq":                     uapi.ObjSRQ,
	"uverbs_methods_ah":                      uapi.ObjAH,
	"uverbs_methods_mr":                      uapi.ObjMR,
	"uverbs_methods_mw":                      uapi.ObjMW,
	"uverbs_methods_flow":                    uapi.ObjFlow,
	"uverbs_methods_xrcd":                    uapi.ObjXRCD,
	"uverbs_methods_rwq_ind_tbl":             uapi.ObjRWQIndTbl,
	"uverbs_methods_wq":                      uapi.ObjWQ,
	"uverbs_methods_actions_flow_action_ops": uapi.ObjFlowAction,
	"uverbs_methods_dm":                      uapi.ObjDM,
	"uverbs_methods_actions_counters_ops":    uapi.ObjCounters,
	"uverbs_method_async_event":              uapi.ObjAsyncEvent,
	"uverbs_methods_dmah":                    uapi.ObjDMAH,
	"uverbs_methods_dmabuf":                  uapi.ObjDMABuf,
	"uverbs_methods_comp_cntr":               uapi.ObjCompCntr,
}

// TestMethodNames: each method and each command that the kernel's headers name has
// an entry of that name, whether rdma_rxe has it or not.
func TestMethodNames(t *testing.T) {
	text := cabi.Preprocessed(t, cabi.Headers)
	enum := regexp.MustCompile(`enum (uverbs_methods?_\w+)\s*\{([^}]*)\}`)
	var names []string
	var objects []uapi.ObjectType
	for _, m := range enum.FindAllStringSubmatch(text, -1) {
		object, known := methodEnums[m[1]]
		if !known {
			t.Errorf("the headers have enum %s, whose object is not known", m[1])
		}
		for _, name := range regexp.MustCompile(`UVERBS_METHOD_\w+`).FindAllString(m[2], -1) {
			names, objects = append(names, name), append(objects, object)
		}
	}
	if len(names) < 35 { // in Linux 6.1
		t.Errorf("%d methods in the headers: %v", len(names), names)
	}
	for i, number := range cabi.Values(t, cabi.Headers, names) {
		key := dispatch.MethodKey{Object: objects[i], Method: uint16(number)}
		if m := tables.Methods[key]; m == nil || "UVERBS_METHOD_"+m.Name != names[i] {
			t.Errorf("%s, method %d of object %d: %+v", names[i], key.Method, key.Object, m)
		}
	}
}

// TestCommandNames is the same of write() commands. The tables end where those of
// rdma_rxe end.
func TestCommandNames(t *testing.T) {
	names := regexp.MustCompile(`\bIB_USER_VERBS_(?:EX_)?CMD_\w+`).FindAllString(cabi.Preprocessed(t, cabi.Headers), -1)
	slices.Sort(names)
	names = slices.Compact(names)
	beyond := map[string]bool{}
	for _, name := range []string{"CMD_OPEN_QP", "EX_CMD_CREATE_FLOW", "EX_CMD_DESTROY_FLOW", "EX_CMD_CREATE_WQ", "EX_CMD_MODIFY_WQ",
		"EX_CMD_DESTROY_WQ", "EX_CMD_CREATE_RWQ_IND_TBL", "EX_CMD_DESTROY_RWQ_IND_TBL", "EX_CMD_MODIFY_CQ"} {
		beyond["IB_USER_VERBS_"+name] = true
	}
	found := 0
	for i, number := range cabi.Values(t, cabi.Headers, names) {
		table, prefix := commands[:], "IB_USER_VERBS_CMD_"
		if strings.HasPrefix(names[i], "IB_USER_VERBS_EX_") {
			table, prefix = exCommands[:], "IB_USER_VERBS_EX_CMD_"
		}
		if beyond[names[i]] {
			found++
			if number < len(table) {
				t.Errorf("%s is within its table", names[i])
			}
			continue
		}
		want := strings.TrimPrefix(names[i], prefix)
		if number >= len(table) || strings.TrimPrefix(table[number].Name, "EX_") != want {
			t.Errorf("%s, command %d, has no entry", names[i], number)
		}
	}
	if len(names) < 53 || found != len(beyond) {
		t.Errorf("%d commands in the headers, %d of them beyond rdma_rxe's: %v", len(names), found, names)
	}
}

// commandNames are those of the write() commands, in their order.
var commandNames = []string{"GET_CONTEXT", "QUERY_DEVICE", "QUERY_PORT", "ALLOC_PD", "DEALLOC_PD", "CREATE_AH",
	"MODIFY_AH", "QUERY_AH", "DESTROY_AH", "REG_MR", "REG_SMR", "REREG_MR", "QUERY_MR", "DEREG_MR", "ALLOC_MW",
	"BIND_MW", "DEALLOC_MW", "CREATE_COMP_CHANNEL", "CREATE_CQ", "RESIZE_CQ", "DESTROY_CQ", "POLL_CQ", "PEEK_CQ",
	"REQ_NOTIFY_CQ", "CREATE_QP", "QUERY_QP", "MODIFY_QP", "DESTROY_QP", "POST_SEND", "POST_RECV", "ATTACH_MCAST",
	"DETACH_MCAST", "CREATE_SRQ", "MODIFY_SRQ", "QUERY_SRQ", "DESTROY_SRQ", "POST_SRQ_RECV", "OPEN_XRCD",
	"CLOSE_XRCD", "CREATE_XSRQ", "OPEN_QP"}

// TestCommandNumbers: each command has its number from the kernel's headers, and its
// name in the table.
func TestCommandNumbers(t *testing.T) {
	var exprs []string
	for i, name := range commandNames {
		exprs = append(exprs, "IB_USER_VERBS_CMD_"+name)
		if i < len(commands) && commands[i].Name != name {
			t.Errorf("command %d is called %s, not %s", i, commands[i].Name, name)
		}
	}
	for i, got := range cabi.Values(t, cabi.Headers, exprs) {
		if got != i {
			t.Errorf("%s is %d in C, %d in Go", exprs[i], got, i)
		}
	}
}
