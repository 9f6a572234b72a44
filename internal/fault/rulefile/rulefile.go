// Package rulefile reads fault rules from YAML:
//
//   - name: first-message-is-lost   # a comment
//     where: packet
//     what: drop
//     opcode: RC_SEND_ONLY
//     first: 1
//
// A file is a list of rules. The keys are those of the grammar of package fault, and where and what
// for its first two words. A mistake is reported with its line and column.
package rulefile

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/gorxe/gorxe/internal/fault"
)

// MaxBytes bounds a file.
const MaxBytes = 32 << 20

// Error says what is wrong in a file, and where.
type Error struct {
	Line, Column int // from 1; Column 0: unknown
	Err          error
}

func (e *Error) Error() string {
	if e.Column == 0 {
		return fmt.Sprintf("%d: %v", e.Line, e.Err)
	}
	return fmt.Sprintf("%d:%d: %v", e.Line, e.Column, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

func at(n *yaml.Node, format string, args ...any) error {
	return &Error{n.Line, n.Column, fmt.Errorf(format, args...)}
}

// Parse reads the rules of a file. An error is an *Error.
func Parse(text []byte) ([]fault.Rule, error) {
	if len(text) > MaxBytes {
		return nil, &Error{Line: 1, Err: fmt.Errorf("the file has more than %d MiB", MaxBytes>>20)}
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, syntaxError(err)
	}
	if doc.Kind == 0 {
		return nil, &Error{Line: 1, Err: errors.New("there is no rule: give a list, as in \"- where: packet\"")}
	}
	list := doc.Content[0]
	switch {
	case list.Kind != yaml.SequenceNode:
		return nil, at(list, "expected a list of rules, each with a dash before it, as in \"- where: packet\", and not %s", kindOf(list))
	case len(list.Content) == 0:
		return nil, at(list, "there is no rule in the list")
	case len(list.Content) > fault.MaxRules:
		return nil, at(list.Content[fault.MaxRules], "more than %d rules", fault.MaxRules)
	}
	rules := make([]fault.Rule, 0, len(list.Content))
	for _, n := range list.Content {
		r, err := rule(n)
		if err != nil {
			return nil, err
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// syntaxError makes an Error of one that says "line 3: ...".
func syntaxError(err error) error {
	why := strings.TrimPrefix(err.Error(), "yaml: ")
	e := &Error{Line: 1, Err: errors.New(why)}
	if m := lineOf.FindStringSubmatch(why); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil {
			e.Line, e.Err = n, errors.New(why[len(m[0]):])
		}
	}
	return e
}

var lineOf = regexp.MustCompile(`^line (\d+): `)

// rule reads one rule.
func rule(n *yaml.Node) (fault.Rule, error) {
	if n.Kind != yaml.MappingNode {
		return fault.Rule{}, at(n, "expected a rule, as in \"where: packet\", and not %s", kindOf(n))
	}
	var words [2]*yaml.Node // where, what
	var items []item
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case key.Kind != yaml.ScalarNode:
			return fault.Rule{}, at(key, "expected the name of a key, and not %s", kindOf(key))
		case value.Kind != yaml.ScalarNode:
			return fault.Rule{}, at(value, "expected the value of %s, and not %s", key.Value, kindOf(value))
		case value.Value == "":
			return fault.Rule{}, at(key, "give %s a value", key.Value)
		case strings.ContainsAny(key.Value, ",= ") || strings.Contains(value.Value, ","):
			return fault.Rule{}, at(value, "%s: a key has no comma, space or equals sign, and a value has no comma", key.Value)
		}
		w := map[string]int{"where": 0, "what": 1}
		if j, ok := w[key.Value]; ok {
			if words[j] != nil {
				return fault.Rule{}, at(key, "%s is given twice", key.Value)
			}
			words[j] = value
			continue
		}
		items = append(items, item{key, value})
	}
	for j, name := range []string{"where", "what"} {
		if words[j] == nil {
			return fault.Rule{}, at(n, "the rule has no key %s", name)
		}
		if strings.Contains(words[j].Value, " ") {
			return fault.Rule{}, at(words[j], "%q: %s is one word", words[j].Value, name)
		}
	}
	text, places := words[0].Value+" "+words[1].Value, []place{{0, words[0]}, {len(words[0].Value) + 1, words[1]}}
	for _, it := range items {
		places = append(places, place{len(text) + 1, it.key})
		text += "," + it.key.Value + "=" + it.value.Value
	}
	r, err := fault.Parse(text)
	if err != nil {
		return r, located(n, err, places)
	}
	return r, nil
}

type item struct{ key, value *yaml.Node }

// place is where a word of a rule's text is in the file.
type place struct {
	offset int
	node   *yaml.Node
}

// located returns the error of a rule with the place of the word at fault.
func located(n *yaml.Node, err error, places []place) error {
	var e *fault.Error
	if !errors.As(err, &e) {
		return at(n, "%w", err)
	}
	if e.Word == "" {
		return at(n, "%s", e.Why)
	}
	for _, p := range places {
		if p.offset == e.At {
			n = p.node
		}
	}
	key, value, found := strings.Cut(e.Word, "=")
	if found {
		return at(n, "%s: %s: %s", key, value, e.Why)
	}
	return at(n, "%s: %s", key, e.Why)
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.SequenceNode:
		return "a list"
	case yaml.MappingNode:
		return "a mapping"
	case yaml.AliasNode:
		return "an alias, which rules do not have"
	default:
		return strconv.Quote(n.Value)
	}
}
