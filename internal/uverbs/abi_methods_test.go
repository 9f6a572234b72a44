package uverbs

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/testenv"
)

// methodEnums are the enums of ib_user_ioctl_cmds.h, one for each object that has
// methods.
var methodEnums = map[string]objectType{
	"uverbs_methods_device":                  objDevice,
	"uverbs_methods_pd":                      objPD,
	"uverbs_methods_cq":                      objCQ,
	"uverbs_methods_qp":                      objQP,
	"uverbs_methods_srq":                     objSRQ,
	"uverbs_methods_ah":                      objAH,
	"uverbs_methods_mr":                      objMR,
	"uverbs_methods_mw":                      objMW,
	"uverbs_methods_flow":                    objFlow,
	"uverbs_methods_xrcd":                    objXRCD,
	"uverbs_methods_rwq_ind_tbl":             objRWQIndTbl,
	"uverbs_methods_wq":                      objWQ,
	"uverbs_methods_actions_flow_action_ops": objFlowAction,
	"uverbs_methods_dm":                      objDM,
	"uverbs_methods_actions_counters_ops":    objCounters,
	"uverbs_method_async_event":              objAsyncEvent,
	"uverbs_methods_dmah":                    objDMAH,
	"uverbs_methods_dmabuf":                  objDMABuf,
	"uverbs_methods_comp_cntr":               objCompCntr,
}

// headerText is what the compiler makes of the ABI's headers.
func headerText(t *testing.T) string {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		testenv.Missing(t, "no C compiler")
	}
	cmd := exec.Command(cc, "-E", "-P", "-x", "c", "-")
	cmd.Stdin = strings.NewReader("#include <" + strings.Join(abiHeaders, ">\n#include <") + ">\n")
	out, err := cmd.Output()
	if err != nil {
		testenv.Missing(t, "the kernel's headers: %v", err)
	}
	return string(out)
}

// TestMethodNames: each method and each command that the kernel's headers name has
// an entry of that name, whether rdma_rxe has it or not.
func TestMethodNames(t *testing.T) {
	text := headerText(t)
	enum := regexp.MustCompile(`enum (uverbs_methods?_\w+)\s*\{([^}]*)\}`)
	var names []string
	var objects []objectType
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
	for i, number := range cValues(t, abiHeaders, names) {
		key := methodKey{objects[i], uint16(number)}
		if m := methods[key]; m == nil || "UVERBS_METHOD_"+m.name != names[i] {
			t.Errorf("%s, method %d of object %d: %+v", names[i], key.method, key.object, m)
		}
	}
}

// TestCommandNames is the same of write() commands. The tables end where those of
// rdma_rxe end.
func TestCommandNames(t *testing.T) {
	names := regexp.MustCompile(`\bIB_USER_VERBS_(?:EX_)?CMD_\w+`).FindAllString(headerText(t), -1)
	slices.Sort(names)
	names = slices.Compact(names)
	beyond := map[string]bool{}
	for _, name := range []string{"CMD_OPEN_QP", "EX_CMD_CREATE_FLOW", "EX_CMD_DESTROY_FLOW", "EX_CMD_CREATE_WQ", "EX_CMD_MODIFY_WQ",
		"EX_CMD_DESTROY_WQ", "EX_CMD_CREATE_RWQ_IND_TBL", "EX_CMD_DESTROY_RWQ_IND_TBL", "EX_CMD_MODIFY_CQ"} {
		beyond["IB_USER_VERBS_"+name] = true
	}
	found := 0
	for i, number := range cValues(t, abiHeaders, names) {
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
		if number >= len(table) || strings.TrimPrefix(table[number].name, "EX_") != want {
			t.Errorf("%s, command %d, has no entry", names[i], number)
		}
	}
	if len(names) < 53 || found != len(beyond) {
		t.Errorf("%d commands in the headers, %d of them beyond rdma_rxe's: %v", len(names), found, names)
	}
}
