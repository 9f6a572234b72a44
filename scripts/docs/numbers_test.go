package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// dataPath are the packages whose limits and tunings stand in their params.go.
var dataPath = []string{
	"internal/engine", "internal/explain/sanitize", "internal/fault/inject", "internal/kernel/eventfile",
	"internal/provider", "internal/provider/librxe", "internal/provider/mlx5", "internal/sched", "internal/sched/standby",
	"internal/sys/bufmem",
	"internal/trap", "internal/trap/doorbell", "internal/trap/fallback", "internal/trap/filter",
	"internal/trap/inflight", "internal/trap/nlsocket", "internal/trap/notify", "internal/trap/procmem",
	"internal/trap/sealed", "internal/trap/threads", "internal/trap/vfs", "rocev2", "rxe",
}

// fromABI are files that are layouts of the kernel's ABI or of a specification from end to end.
var fromABI = map[string]string{
	"internal/provider/mlx5/abi.go":     "registers and doorbell records of libmlx5",
	"internal/provider/mlx5/look.go":    "numbers of PCI",
	"internal/provider/mlx5/methods.go": "attributes of mlx5_user_ioctl_cmds.h",
	"internal/provider/mlx5/cqe.go":     "struct mlx5_cqe64",
	"internal/provider/mlx5/structs.go": "mlx5-abi.h",
	"internal/provider/mlx5/wqe.go":     "struct mlx5_wqe_*_seg",

	"internal/trap/filter/program.go": "a filter of seccomp: offsets in struct seccomp_data, and jumps",

	"rocev2/mmsg.go":       "struct mmsghdr, cmsghdr and sockaddr",
	"rocev2/split.go":      "control messages of recvmsg",
	"rocev2/tap.go":        "headers of IPv4, IPv6 and UDP",
	"rocev2/tapnote.go":    "blocks of pcapng",
	"rocev2/filter.go":     "the program of a socket: offsets of headers",
	"rocev2/defaultgid.go": "the modified EUI-64",
	"rxe/attr.go":          "the attributes of verbs",
	"rxe/deviceattr.go":    "struct ibv_device_attr",
	"rxe/events.go":        "enum ibv_event_type",
	"rxe/port.go":          "struct ibv_port_attr",
	"rxe/speed.go":         "the speeds and widths of ports",
	"rxe/strings.go":       "names of enums",
	"rxe/work.go":          "struct ibv_send_wr and ibv_wc",
}

// cites is a comment that says where a number comes from.
var cites = regexp.MustCompile(`IBA |RFC \d|linux/|include/|asm/|net/\w+\.h|\w+/\w+\.c\b|rxe_\w+\.[ch]|struct \w+|enum ibv|\b\w+\([47]\)|inode\(7\)|UDP_MAX_SEGMENTS`)

const largest = 2 // of the numbers that may stand anywhere: none, one, both

// TestNumbersStandInParams: each number of the data path that is larger than 2, and each length of
// time, stands in the params.go of its package. A number may stand elsewhere if it is part of an
// interface that gorxe did not make:
//
//   - its declaration, or the function around it, has a comment that names the source (cites), or
//     its file is in fromABI;
//   - it is an index, the bound of a slice, or the number of an argument: a place in someone's
//     struct;
//   - it is the size of a word, a pair of words or an address: an array of 16 bytes at most;
//   - it is how many columns a table of arrays has;
//   - it is the base or the width of a number in text, or the mode of a file.
func TestNumbersStandInParams(t *testing.T) {
	const root = "../.."
	for _, pkg := range dataPath {
		files, err := filepath.Glob(filepath.Join(root, pkg, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no files: %v", pkg, err)
		}
		if _, err := os.Stat(filepath.Join(root, pkg, "params.go")); err != nil {
			t.Errorf("%s has no params.go", pkg)
		}
		for _, path := range files {
			rel, _ := filepath.Rel(root, path)
			if strings.HasSuffix(path, "_test.go") || filepath.Base(path) == "params.go" || fromABI[filepath.ToSlash(rel)] != "" {
				continue
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range looseNumbers(t, rel, text) {
				t.Errorf("%s: move it to %s/params.go, with its unit and its reason; or say whose number it is", found, pkg)
			}
		}
	}
}

// TestLooseNumbers: what the rule finds, and what it lets pass.
func TestLooseNumbers(t *testing.T) {
	for _, c := range []struct {
		code string
		want int
	}{
		{"const limit = 20", 1},
		{"const share = 0.75", 1},
		{"var pause = time.Second", 1},
		{"func f(d time.Duration) int { return int(d / time.Millisecond) }", 0},
		{"func f() { buf := make([]byte, 4096); _ = buf }", 1},
		{"var b [4096]byte", 1},
		{"var b [16]byte", 0},
		{"var table = [...][4]state{}", 0},
		{"func f(b []byte) byte { return b[7] + b[12:][0] }", 0},
		{"func f(s string) { strconv.ParseInt(s, 10, 64) }", 0},
		{"const both = 2", 0},
		{"// of struct rxe_sge (linux/rdma_user_rxe.h)\nconst size = 16", 0},
		{"const size = 16 // IBA 9.2", 0},
		{"const size = 16 // because it is nice", 1},
		{"const size = 16 // mm/memfd.c: MFD_NAME_MAX_LEN", 0},
		{"const size = 16 // as in file.c", 1},
	} {
		if got := looseNumbers(t, "x.go", []byte("package x\n\n"+c.code+"\n")); len(got) != c.want {
			t.Errorf("%s: found %v, want %d", c.code, got, c.want)
		}
	}
}

// looseNumbers returns the numbers of a file that should be in params.go.
func looseNumbers(t *testing.T, name string, text []byte) (found []string) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	cited := make(map[int]bool) // lines that end with a comment which cites
	for _, group := range file.Comments {
		if cites.MatchString(group.Text()) {
			cited[set.Position(group.Pos()).Line] = true
		}
	}
	for _, decl := range file.Decls {
		var path []ast.Node
		ast.Inspect(decl, func(n ast.Node) bool {
			if n == nil {
				path = path[:len(path)-1]
				return true
			}
			if isNumber(n, path) && !cited[set.Position(n.Pos()).Line] && !allowed(n, path) {
				line := set.Position(n.Pos()).Line
				found = append(found, name+":"+strconv.Itoa(line)+": "+strings.TrimSpace(strings.Split(string(text), "\n")[line-1]))
			}
			path = append(path, n)
			return true
		})
	}
	return found
}

// isNumber reports whether a node is a number above largest, or a unit of time that makes a length.
func isNumber(n ast.Node, path []ast.Node) bool {
	switch n := n.(type) {
	case *ast.BasicLit:
		if n.Kind != token.INT && n.Kind != token.FLOAT || strings.HasPrefix(n.Value, "0o") {
			return false
		}
		v, err := strconv.ParseUint(n.Value, 0, 64)
		return err != nil || v > largest
	case *ast.SelectorExpr:
		x, ok := n.X.(*ast.Ident)
		if !ok || x.Name != "time" || !strings.HasSuffix(n.Sel.Name, "second") && !strings.HasSuffix(n.Sel.Name, "Second") {
			return false
		}
		in, converts := path[len(path)-1].(*ast.BinaryExpr)
		return !converts || in.Op == token.MUL
	}
	return false
}

// allowed reports whether a number at the end of a path of nodes is part of an interface.
func allowed(n ast.Node, path []ast.Node) bool {
	for i := len(path) - 1; i >= 0; i-- {
		inner := n
		if i+1 < len(path) {
			inner = path[i+1]
		}
		switch p := path[i].(type) {
		case *ast.IndexExpr:
			if p.Index == inner {
				return true
			}
		case *ast.SliceExpr:
			if p.X != inner {
				return true
			}
		case *ast.ArrayType:
			if i > 0 {
				if table, ok := path[i-1].(*ast.ArrayType); ok && table.Elt == p && p.Len == inner {
					return true
				}
			}
			lit, ok := n.(*ast.BasicLit)
			elem, byteArray := p.Elt.(*ast.Ident)
			if ok && byteArray && elem.Name == "byte" && p.Len == inner {
				size, err := strconv.Atoi(lit.Value)
				return err == nil && size <= 16
			}
		case *ast.CallExpr:
			if takesPlaces(p.Fun) {
				return true
			}
		case *ast.ValueSpec:
			if cites.MatchString(p.Doc.Text()) || cites.MatchString(p.Comment.Text()) {
				return true
			}
		case *ast.GenDecl:
			if cites.MatchString(p.Doc.Text()) {
				return true
			}
		case *ast.FuncDecl:
			if cites.MatchString(p.Doc.Text()) {
				return true
			}
		}
	}
	return false
}

// takesPlaces reports whether the arguments of a call are numbers of arguments or the form of a
// number in text.
func takesPlaces(f ast.Expr) bool {
	switch f := f.(type) {
	case *ast.SelectorExpr:
		x, ok := f.X.(*ast.Ident)
		return f.Sel.Name == "arg" || f.Sel.Name == "fd" || ok && x.Name == "strconv"
	}
	return false
}
