package ucma

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/explain"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/test/must"
)

// reasons wants a sentence for each EINVAL. All programs of the tests have it.
type reasons struct{ t testing.TB }

func (r reasons) Refused(verb string, errno unix.Errno, err error) {
	if errno != unix.EINVAL {
		return
	}
	why, fix := "", ""
	if reason, ok := err.(explain.Reason); ok {
		_, _, why, fix = reason.Reason()
	}
	if why == "" || fix == "" {
		r.t.Errorf("%s: EINVAL without a reason: %v", verb, err)
	}
	if record := explain.Refused(verb, errno, err); len(strings.Fields(record.String())) >= 30 {
		r.t.Errorf("30 words or more: %s", record.String())
	}
}

// bare are the functions that may return EINVAL alone, and why.
var bare = map[string]string{
	"Read":        "the program reads from a file that has nothing to read",
	"errnoOf":     "it finds the errno of a refusal",
	"errno":       "no error of package cm is left",
	"lookupReply": "it is the status of an event, which has no sentence",
}

// TestRefusals: no function of this package and of package rdmacm returns an EINVAL without a
// sentence.
func TestRefusals(t *testing.T) {
	reasoned := 0
	for _, dir := range []string{".", "../../cm/rdmacm"} {
		fset := token.NewFileSet()
		for _, path := range must.Get[[]string](t)(filepath.Glob(filepath.Join(dir, "*.go"))) {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			for _, decl := range must.Get[*ast.File](t)(parser.ParseFile(fset, path, nil, 0)).Decls {
				name := ""
				if f, ok := decl.(*ast.FuncDecl); ok {
					name = f.Name.Name
				}
				said := make(map[ast.Expr]bool)
				ast.Inspect(decl, func(n ast.Node) bool {
					switch n := n.(type) {
					case *ast.CallExpr:
						if len(n.Args) == 4 { // refuse and kernel.Refuse
							said[n.Args[0]] = true
							reasoned++
						}
					case *ast.SelectorExpr:
						if n.Sel.Name == "EINVAL" && !said[n] && bare[name] == "" {
							t.Errorf("%v: %s has an EINVAL without a sentence", fset.Position(n.Pos()), name)
						}
					}
					return true
				})
			}
		}
	}
	if reasoned < 40 {
		t.Errorf("%d refusals were found: there are more", reasoned)
	}
}

// TestRefusalSentence: what a program hears of RDMA CM names the id's state and what to do.
func TestRefusalSentence(t *testing.T) {
	h := newHost(t)
	p := h.open()
	var said []string
	p.f.SetRefusals(keeps(func(verb string, errno unix.Errno, err error) {
		r := explain.Refused(verb, errno, err)
		said = append(said, r.String())
	}))
	id := p.create(1, tcp)
	p.want(do(p, uapi.UcmaResolveRoute, uapi.UcmaResolveRouteReq{ID: id, TimeoutMs: 100}, 0), unix.EINVAL)
	if want := "rdma_resolve_route failed with EINVAL: id has no device"; len(said) != 1 || !strings.Contains(said[0], want) {
		t.Errorf("said %q, want %q", said, want)
	}
}

type keeps func(verb string, errno unix.Errno, err error)

func (k keeps) Refused(verb string, errno unix.Errno, err error) { k(verb, errno, err) }
