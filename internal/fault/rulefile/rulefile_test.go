package rulefile

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/fault"
)

// good is the example of docs/faults.md.
const good = `# what our switch did in March
- name: first-message-is-lost
  where: packet
  what: drop
  opcode: RC_SEND_ONLY
  first: 1
- {where: verb, what: fail, verb: create_qp, errno: ENOMEM, after: 10}
- where: packet
  what: delay
  time: 2ms   # one way
  p: 1%
`

func TestParse(t *testing.T) {
	rules, err := Parse([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range rules {
		got = append(got, rules[i].String())
	}
	want := "packet drop,opcode=RC_SEND_ONLY,name=first-message-is-lost,first=1\n" +
		"verb fail,verb=create_qp,errno=ENOMEM,after=10\n" +
		"packet delay,time=2ms,p=0.01"
	if strings.Join(got, "\n") != want {
		t.Errorf("%q", got)
	}
	text, err := os.ReadFile("../../../docs/faults.md")
	if err != nil || !strings.Contains(string(text), good) {
		t.Errorf("docs/faults.md lacks the example: %v", err)
	}
}

// wrong has files with a mistake, and the message: line, column, and what was expected.
var wrong = []struct{ text, says string }{
	{"", `1: there is no rule: give a list, as in "- where: packet"`},
	{"# nothing\n", `1: there is no rule: give a list, as in "- where: packet"`},
	{"[]", "1:1: there is no rule in the list"},
	{"where: packet\nwhat: drop\n", `1:1: expected a list of rules, each with a dash before it, as in "- where: packet", and not a mapping`},
	{"- packet drop\n", `1:3: expected a rule, as in "where: packet", and not "packet drop"`},
	{"- where: packet\n  what: drop\n- - a\n", `3:3: expected a rule, as in "where: packet", and not a list`},
	{"- where: packet\n  first: 1\n", "1:3: the rule has no key what"},
	{"- what: drop\n", "1:3: the rule has no key where"},
	{"- where: paket\n  what: drop\n", "1:10: paket: unknown: is it packet?"},
	{"- where: packet\n  what: drp\n", "2:9: drp: unknown: is it drop?"},
	{"- where: packet\n  what: drop\n  frist: 1\n", "3:3: frist: 1: unknown: is it first?"},
	{"- where: packet\n  what: drop\n  first: none\n", "3:3: first: none: give a number, 1 or more"},
	{"- where: packet\n  what: drop\n  first:\n", "3:3: give first a value"},
	{"- where: packet\n  what: drop\n  first: [1]\n", "3:10: expected the value of first, and not a list"},
	{"- where: packet\n  what: drop\n  ? [a]\n  : 1\n", "3:5: expected the name of a key, and not a list"},
	{"- where: packet\n  where: verb\n", "2:3: where is given twice"},
	{"- where: packet\n  what: drop\n  first: 1\n  first: 2\n", "4:3: first: 2: first is given twice"},
	{"- where: packet\n  what: drop\n  opcode: RC_SEND_ONLY,first=1\n", "3:11: opcode: a key has no comma, space or equals sign, and a value has no comma"},
	{"- where: packet drop,first=1\n  what: drop\n", "1:10: where: a key has no comma, space or equals sign, and a value has no comma"},
	{"- where: packet drop\n  what: drop\n", `1:10: "packet drop": where is one word`},
	{"- where: packet\n  what: delay\n", "1:3: packet delay needs time=…"},
	{"- where: packet\n  what: drop\n  name: é\n", "1:3: byte 18 is no printable character of ASCII"},
	{"- &a\n  where: packet\n  what: drop\n- *a\n", `4:3: expected a rule, as in "where: packet", and not an alias, which rules do not have`},
	{"- where: packet\n  what: [drop\n", "1: did not find expected ',' or ']'"},
	{"- where: \"packet\n", "2: found unexpected end of stream"},
	{"\t- where: packet\n", "1: found character that cannot start any token"},
}

func TestWrong(t *testing.T) {
	for _, c := range wrong {
		_, err := Parse([]byte(c.text))
		var e *Error
		if !errors.As(err, &e) || err.Error() != c.says {
			t.Errorf("%q: %v\nwant %s", c.text, err, c.says)
		}
	}
	if _, err := Parse(make([]byte, MaxBytes+1)); err == nil {
		t.Error("a huge file is taken")
	}
	many := strings.Repeat("- {where: packet, what: drop}\n", fault.MaxRules+1)
	if _, err := Parse([]byte(many)); err == nil || !strings.HasPrefix(err.Error(), "100001:3: more than") {
		t.Errorf("too many rules: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	for _, c := range wrong {
		f.Add([]byte(c.text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		rules, err := Parse(text)
		var e *Error
		switch {
		case err != nil && (!errors.As(err, &e) || e.Line < 1):
			t.Fatalf("%q: %v", text, err)
		case err == nil && len(rules) == 0:
			t.Fatalf("%q has no rules", text)
		}
		for i := range rules {
			if err := rules[i].Check(); err != nil {
				t.Fatalf("%q: %v", text, err)
			}
		}
	})
}
