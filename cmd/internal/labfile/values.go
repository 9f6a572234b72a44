package labfile

import (
	"errors"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/internal/fault/rulefile/yamltext"
)

func text(n *yaml.Node, key string, to *string) error {
	if n.Kind != yaml.ScalarNode || n.Value == "" {
		return yamltext.At(n, "%s: expected a text, and not %s", key, kindOf(n))
	}
	for _, c := range n.Value {
		if c == 0 {
			return yamltext.At(n, "%s: the text has a zero byte", key)
		}
	}
	*to = n.Value
	return nil
}

func list(n *yaml.Node, key string) (words []string, err error) {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		return nil, yamltext.At(n, "%s: expected a list, and not %s", key, kindOf(n))
	}
	for _, n := range n.Content {
		var word string
		if err := text(n, key, &word); err != nil {
			return nil, err
		}
		words = append(words, word)
	}
	return words, nil
}

func number(n *yaml.Node, key string, least, most int, to *int) error {
	v, err := strconv.Atoi(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || v < least || v > most {
		return yamltext.At(n, "%s: expected a number from %d to %d, and not %s", key, least, most, kindOf(n))
	}
	*to = v
	return nil
}

func boolean(n *yaml.Node, key string, to *bool) error {
	if n.Kind != yaml.ScalarNode || n.Value != "true" && n.Value != "false" {
		return yamltext.At(n, "%s: expected true or false, and not %s", key, kindOf(n))
	}
	*to = n.Value == "true"
	return nil
}

// reason is what a rule's error says of the value.
func reason(err error) string {
	var e *fault.Error
	if errors.As(err, &e) {
		return e.Why
	}
	return err.Error()
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.SequenceNode:
		if len(n.Content) == 0 {
			return "an empty list"
		}
		return "a list"
	case yaml.MappingNode:
		return "a mapping"
	case yaml.AliasNode:
		return "an alias, which lab files do not have"
	default:
		return strconv.Quote(n.Value)
	}
}
