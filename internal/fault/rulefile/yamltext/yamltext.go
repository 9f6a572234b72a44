// Package yamltext reads YAML of which an error says the line and the column.
package yamltext

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

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

// At makes an Error at a node.
func At(n *yaml.Node, format string, args ...any) error {
	return &Error{n.Line, n.Column, fmt.Errorf(format, args...)}
}

// Read returns the first document of a text of at most so many bytes. An error is an *Error. Of an
// empty text it is the one given.
func Read(text []byte, most int, empty string) (*yaml.Node, error) {
	if len(text) > most {
		return nil, &Error{Line: 1, Err: fmt.Errorf("the file has more than %d MiB", most>>20)}
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, syntaxError(err)
	}
	if doc.Kind == 0 {
		return nil, &Error{Line: 1, Err: errors.New(empty)}
	}
	return doc.Content[0], nil
}

var lineOf = regexp.MustCompile(`^line (\d+): `)

// syntaxError makes an Error of one that says "line 3: ...".
func syntaxError(err error) error {
	why := strings.TrimPrefix(err.Error(), "yaml: ")
	e := &Error{Line: 1, Err: errors.New(why)}
	if m := lineOf.FindStringSubmatch(why); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil && n > 0 {
			e.Line, e.Err = n, errors.New(why[len(m[0]):])
		}
	}
	return e
}
