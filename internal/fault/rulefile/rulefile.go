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
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/internal/fault/rulefile/yamltext"
)

// MaxBytes bounds a file.
const MaxBytes = 32 << 20

// Error says what is wrong in a file, and where.
type Error = yamltext.Error

// Parse reads the rules of a file. An error is an *Error.
func Parse(text []byte) ([]fault.Rule, error) {
	list, err := yamltext.Read(text, MaxBytes, "there is no rule: give a list, as in \"- where: packet\"")
	if err != nil {
		return nil, err
	}
	switch {
	case list.Kind != yaml.SequenceNode:
		return nil, yamltext.At(list, "expected a list of rules, each with a dash before it, as in \"- where: packet\", and not %s", kindOf(list))
	case len(list.Content) == 0:
		return nil, yamltext.At(list, "there is no rule in the list")
	case len(list.Content) > fault.MaxRules:
		return nil, yamltext.At(list.Content[fault.MaxRules], "more than %d rules", fault.MaxRules)
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

// rule reads one rule.
func rule(n *yaml.Node) (fault.Rule, error) {
	if n.Kind != yaml.MappingNode {
		return fault.Rule{}, yamltext.At(n, "expected a rule, as in \"where: packet\", and not %s", kindOf(n))
	}
	var words [2]*yaml.Node // where, what
	var items []item
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case key.Kind != yaml.ScalarNode:
			return fault.Rule{}, yamltext.At(key, "expected the name of a key, and not %s", kindOf(key))
		case value.Kind != yaml.ScalarNode:
			return fault.Rule{}, yamltext.At(value, "expected the value of %s, and not %s", key.Value, kindOf(value))
		case value.Value == "":
			return fault.Rule{}, yamltext.At(key, "give %s a value", key.Value)
		case strings.ContainsAny(key.Value, ",= ") || strings.Contains(value.Value, ","):
			return fault.Rule{}, yamltext.At(value, "%s: a key has no comma, space or equals sign, and a value has no comma", key.Value)
		}
		w := map[string]int{"where": 0, "what": 1}
		if j, ok := w[key.Value]; ok {
			if words[j] != nil {
				return fault.Rule{}, yamltext.At(key, "%s is given twice", key.Value)
			}
			words[j] = value
			continue
		}
		items = append(items, item{key, value})
	}
	for j, name := range []string{"where", "what"} {
		if words[j] == nil {
			return fault.Rule{}, yamltext.At(n, "the rule has no key %s", name)
		}
		if strings.Contains(words[j].Value, " ") {
			return fault.Rule{}, yamltext.At(words[j], "%q: %s is one word", words[j].Value, name)
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
		return yamltext.At(n, "%w", err)
	}
	if e.Word == "" {
		return yamltext.At(n, "%s", e.Why)
	}
	for _, p := range places {
		if p.offset == e.At {
			n = p.node
		}
	}
	key, value, found := strings.Cut(e.Word, "=")
	if found {
		return yamltext.At(n, "%s: %s: %s", key, value, e.Why)
	}
	return yamltext.At(n, "%s: %s", key, e.Why)
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
