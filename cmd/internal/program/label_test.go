package program

import (
	"bytes"
	"strings"
	"testing"
)

// TestLabels: each line has its label and is written in one piece, also the last one without an
// end.
func TestLabels(t *testing.T) {
	long := strings.Repeat("x", maxLine+10)
	for _, c := range []struct{ pieces, want []string }{
		{[]string{"one\ntwo"}, []string{"s: one\n", "s: two\n"}},
		{[]string{"\n\n"}, []string{"s: \n", "s: \n"}},
		{[]string{"a", "b\nc", "d"}, []string{"s: ab\n", "s: cd\n"}},
		{[]string{long + "\nend\n"}, []string{"s: " + long[:maxLine] + "\n", "s: " + long[maxLine:] + "\n", "s: end\n"}},
		{nil, nil},
	} {
		var out pieces
		l := labeler{to: &out, label: "s: "}
		for _, p := range c.pieces {
			if n, err := l.Write([]byte(p)); n != len(p) || err != nil {
				t.Errorf("%d of %d bytes, %v", n, len(p), err)
			}
		}
		l.flush()
		if got, want := strings.Join(out, "|"), strings.Join(c.want, "|"); got != want {
			t.Errorf("%.40q: %.80q, want %.80q", c.pieces, got, want)
		}
	}
}

// pieces keeps what each call of Write has.
type pieces []string

func (p *pieces) Write(b []byte) (int, error) {
	*p = append(*p, string(bytes.Clone(b)))
	return len(b), nil
}
