// Package cabi asks the C compiler what the system's headers say, for tests that
// compare Go's constants and structs with the kernel's.
package cabi

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/gorxe/gorxe/internal/test/testenv"
)

// Headers are those of the verbs' ABI.
var Headers = []string{"rdma/ib_user_verbs.h", "rdma/ib_user_ioctl_cmds.h",
	"rdma/ib_user_ioctl_verbs.h", "rdma/rdma_user_ioctl_cmds.h", "rdma/rdma_user_rxe.h"}

// Values returns the values of C expressions.
func Values(t *testing.T, includes, exprs []string) []int {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		testenv.Missing(t, "no C compiler: install gcc and libc6-dev")
	}
	var src strings.Builder
	src.WriteString("#include <stdio.h>\n#include <stddef.h>\n")
	for _, h := range includes {
		if _, err := os.Stat("/usr/include/" + h); err != nil {
			testenv.Missing(t, "no %s: install linux-libc-dev", h)
		}
		fmt.Fprintf(&src, "#include <%s>\n", h)
	}
	src.WriteString("int main(void) {\n")
	for _, e := range exprs {
		fmt.Fprintf(&src, "printf(\"%%d\\n\", (int)(%s));\n", e)
	}
	src.WriteString("return 0; }\n")
	dir := t.TempDir()
	file, bin := filepath.Join(dir, "values.c"), filepath.Join(dir, "values")
	if err := os.WriteFile(file, []byte(src.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(cc, "-o", bin, file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(bin).Output()
	if err != nil {
		t.Fatal(err)
	}
	var values []int
	for f := range strings.FieldsSeq(string(out)) {
		v, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, v)
	}
	if len(values) != len(exprs) {
		t.Fatalf("%d values of %d expressions", len(values), len(exprs))
	}
	return values
}

// Offset returns the C expression for a field's offset.
func Offset(structName, field string) string {
	return "offsetof(struct " + structName + ", " + field + ")"
}

// Preprocessed returns the headers as the C preprocessor leaves them.
func Preprocessed(t *testing.T, includes []string) string {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		testenv.Missing(t, "no C compiler: install gcc and libc6-dev")
	}
	cmd := exec.Command(cc, "-E", "-P", "-x", "c", "-")
	cmd.Stdin = strings.NewReader("#include <" + strings.Join(includes, ">\n#include <") + ">\n")
	out, err := cmd.Output()
	if err != nil {
		testenv.Missing(t, "the kernel's headers: %v", err)
	}
	return string(out)
}

// CheckStructs compares Go structs with the C structs that the keys name: the size,
// and the offset and size of each field. A field's name is the C field's in Go
// spelling, or the tag c says it.
func CheckStructs(t *testing.T, includes []string, structs map[string]any) {
	t.Helper()
	var exprs, what []string
	var want []int
	add := func(expr, name string, v uintptr) {
		exprs, what, want = append(exprs, expr), append(what, name), append(want, int(v))
	}
	for name, v := range structs {
		typ := reflect.TypeOf(v)
		add("sizeof(struct "+name+")", "size of "+name, typ.Size())
		for i := range typ.NumField() {
			f := typ.Field(i)
			field := cName(f.Name)
			tag := f.Tag.Get("c")
			if tag == "-" {
				continue // these headers may be older
			}
			if tag != "" {
				field = tag
			}
			add(Offset(name, field), name+"."+field, f.Offset)
			add(fmt.Sprintf("sizeof(((struct %s *)0)->%s)", name, field), "size of "+name+"."+field, f.Type.Size())
		}
	}
	for i, got := range Values(t, includes, exprs) {
		if got != want[i] {
			t.Errorf("%s is %d in C, %d in Go", what[i], got, want[i])
		}
	}
}

// cName returns a Go field's name in C: UserHandle is user_handle, MaxSGERd
// max_sge_rd.
func cName(goName string) string {
	r := []rune(goName)
	var b strings.Builder
	for i, c := range r {
		if i > 0 && unicode.IsUpper(c) &&
			(!unicode.IsUpper(r[i-1]) || i+1 < len(r) && unicode.IsLower(r[i+1])) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}
