package fault

import (
	"fmt"
	"slices"
	"strings"
)

// MaxText is how many bytes the text of one rule may have.
const MaxText = 4096

// given is where the words of a rule's text are.
type given struct {
	text string
	at   map[string]int // of KEY=VALUE, by key
}

func (g *given) bad(word string, at int, format string, args ...any) error {
	return &Error{Rule: g.text, Word: word, At: at, Why: fmt.Sprintf(format, args...)}
}

// badKey is bad for the KEY=VALUE of a key.
func (g *given) badKey(key, why string) error {
	at, ok := g.at[key]
	if !ok {
		return g.bad("", 0, "%s", why)
	}
	word, _, _ := strings.Cut(g.text[at:], ",")
	return g.bad(word, at, "%s", why)
}

// Parse reads a rule. An error is an *Error.
func Parse(text string) (Rule, error) {
	g := &given{text: text, at: make(map[string]int)}
	if len(text) > MaxText {
		g.text = text[:64] + "…"
		return Rule{}, g.bad("", 0, "the rule is longer than %d bytes", MaxText)
	}
	for i, c := range text {
		if c < ' ' || c > '~' {
			return Rule{}, g.bad("", 0, "byte %d is no printable character of ASCII", i+1)
		}
	}
	return g.parse()
}

func (g *given) parse() (r Rule, err error) {
	rest := strings.TrimLeft(g.text, " ")
	where, rest, spaced := strings.Cut(rest, " ")
	if where == "" {
		return r, g.bad("", 0, "it is empty: give a place and a fault, as in \"packet drop,first=1\"")
	}
	p := findPlace(where)
	if p == nil {
		return r, g.bad(where, strings.Index(g.text, where), "%s", unknown("a rule begins with", where, placeNames()))
	}
	if !spaced || strings.TrimSpace(rest) == "" {
		return r, g.bad(where, strings.Index(g.text, where), "say what happens: %s", oneOf(p.faults()))
	}
	at := len(g.text) - len(strings.TrimLeft(rest, " "))
	var f *fault
	for i, item := range strings.Split(strings.TrimRight(g.text[at:], " "), ",") {
		if i == 0 {
			if f = p.find(item); f == nil {
				if name, options, ok := strings.Cut(item, " "); ok && p.find(name) != nil {
					return r, g.bad(item, at, "options follow a comma: %s", withCommas(p.name+" "+name, options))
				}
				return r, g.bad(item, at, "%s", unknown("a "+p.name+" rule says", item, p.faults()))
			}
			r.Where, r.What = p.where, f.what
		} else if err := g.item(&r, p, f, item, at); err != nil {
			return r, err
		}
		at += len(item) + 1
	}
	if key, why := r.check(); why != "" {
		return Rule{}, g.badKey(key, why)
	}
	return r, nil
}

// withCommas writes options that follow a space as a rule has them. One without a key may be a
// probability, as 1%.
func withCommas(rule, options string) string {
	options = strings.Join(strings.Fields(options), ",")
	if with := rule + ",p=" + options; !strings.Contains(options, "=") {
		if _, err := Parse(with); err == nil {
			return with
		}
		return rule + ",KEY=VALUE"
	}
	return rule + "," + options
}

// item reads one KEY=VALUE.
func (g *given) item(r *Rule, p *place, f *fault, item string, at int) error {
	name, value, ok := strings.Cut(item, "=")
	takes := p.takes(f)
	switch {
	case item == "":
		return g.bad("", 0, "there is nothing after the comma at byte %d", at)
	case !slices.Contains(takes, name):
		if findKey(name) != nil {
			return g.bad(item, at, "%s %s has no %s: it has %s", p.name, f.name, name, oneOf(takes))
		}
		return g.bad(item, at, "%s", unknown(p.name+" "+f.name+" has", name, takes))
	case !ok || value == "":
		return g.bad(item, at, "give it a value: %s=…", name)
	}
	if _, twice := g.at[name]; twice {
		return g.bad(item, at, "%s is given twice", name)
	}
	g.at[name] = at
	if err := findKey(name).set(r, value); err != nil {
		return g.bad(item, at, "%v", err)
	}
	return nil
}

// unknown says what there is instead of a word.
func unknown(what, given string, words []string) string {
	if near := Nearest(given, words); near != "" {
		return fmt.Sprintf("unknown: is it %s?", near)
	}
	return fmt.Sprintf("unknown: %s %s", what, oneOf(words))
}
