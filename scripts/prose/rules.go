package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// rule is one thing that prose, or a name, must not contain.
type rule struct {
	name   string
	names  bool // it is about declared names, not about prose
	match  *regexp.Regexp
	except *regexp.Regexp // what is allowed although it matches; nil for nothing
	say    string
	bad    string // a sentence that breaks the rule
	good   string // one that does not
}

// ruleSet is the whole of rules.txt.
type ruleSet struct {
	sentence  int     // the most words of a sentence
	grade     float64 // the highest grade of a file
	gradeFrom int     // the words that a file must have to be graded
	rules     []rule
}

type fault struct {
	rule, message string
	at            place
}

// parseRules reads rules.txt: settings, and rules, each of which begins with a line
// "rule NAME" or "name-rule NAME".
func parseRules(text string) (*ruleSet, error) {
	set := &ruleSet{}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, value, _ := strings.Cut(line, " ")
		if err := set.take(key, strings.TrimSpace(value)); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	for _, r := range set.rules {
		if r.match == nil || r.say == "" || r.bad == "" || r.good == "" {
			return nil, fmt.Errorf("rule %s needs match, say, bad and good", r.name)
		}
	}
	return set, nil
}

func (set *ruleSet) take(key, value string) (err error) {
	switch key {
	case "sentence":
		set.sentence, err = strconv.Atoi(value)
		return err
	case "grade":
		set.grade, err = strconv.ParseFloat(value, 64)
		return err
	case "grade-from":
		set.gradeFrom, err = strconv.Atoi(value)
		return err
	case "rule", "name-rule":
		set.rules = append(set.rules, rule{name: value, names: key == "name-rule"})
		return nil
	}
	if len(set.rules) == 0 {
		return fmt.Errorf("%q stands before the first rule", key)
	}
	r := &set.rules[len(set.rules)-1]
	switch key {
	case "match":
		r.match, err = regexp.Compile(value)
	case "except":
		r.except, err = regexp.Compile(value)
	case "say":
		r.say = value
	case "bad":
		r.bad = value
	case "good":
		r.good = value
	default:
		err = fmt.Errorf("unknown key %q", key)
	}
	return err
}

// apply returns the faults of a file, in the order of its blocks.
func (set *ruleSet) apply(blocks []block) []fault {
	var out []fault
	for _, b := range blocks {
		if b.kind == identifier {
			out = append(out, set.identifier(b)...)
			continue
		}
		text := plain(b.text)
		for _, s := range sentences(text) {
			out = append(out, set.inSentence(b, text, s)...)
		}
	}
	if m := measure(blocks); set.grade > 0 && m.words >= set.gradeFrom && m.grade() > set.grade {
		out = append(out, fault{"grade", fmt.Sprintf("the readability grade is %.1f, above %.1f: use shorter sentences and words", m.grade(), set.grade), place{1, 1}})
	}
	return out
}

func (set *ruleSet) inSentence(b block, text string, s span) (out []fault) {
	sentence := text[s.from:s.to]
	if n := words(sentence); b.kind == paragraph && set.sentence > 0 && n > set.sentence {
		out = append(out, fault{"sentence", fmt.Sprintf("a sentence of %d words, more than %d", n, set.sentence), b.at[s.from]})
	}
	for _, r := range set.rules {
		if r.names {
			continue
		}
		if at, found, ok := r.find(sentence); ok {
			out = append(out, fault{r.name, fmt.Sprintf("%q: %s", strings.TrimSpace(found), r.say), b.at[s.from+at]})
		}
	}
	return out
}

// find looks for the rule's pattern in a sentence, and skips what is excepted.
func (r *rule) find(s string) (at int, found string, ok bool) {
	for _, m := range r.match.FindAllStringIndex(s, -1) {
		hit := s[m[0]:m[1]]
		if r.except == nil || !r.except.MatchString(hit) {
			// The blank before the match is not part of it.
			lead := len(hit) - len(strings.TrimLeft(hit, " "))
			return m[0] + lead, hit, true
		}
	}
	return 0, "", false
}

// identifier applies the name rules to the words of a declared name.
func (set *ruleSet) identifier(b block) (out []fault) {
	split := strings.Join(nameWords(b.text), " ")
	for _, r := range set.rules {
		if !r.names {
			continue
		}
		if _, found, ok := r.find(split); ok {
			out = append(out, fault{r.name, fmt.Sprintf("%q in the name %s: %s", strings.TrimSpace(found), b.text, r.say), b.at[0]})
		}
	}
	return out
}

// startsWord reports whether a word of a name starts at i. A word starts at an
// underscore, and at an upper-case letter after another kind of character. It also starts
// at the last of several upper-case letters, before a lower-case one: the S of QPState.
func startsWord(name []rune, i int) bool {
	if name[i] == '_' {
		return true
	}
	if !unicode.IsUpper(name[i]) {
		return false
	}
	return !unicode.IsUpper(name[i-1]) || i+1 < len(name) && unicode.IsLower(name[i+1])
}

// nameWords splits a name into lower-case words: eventQueue is event and queue.
func nameWords(name string) []string {
	var out []string
	runes := []rune(name)
	start := 0
	for i := 1; i <= len(runes); i++ {
		if i < len(runes) && !startsWord(runes, i) {
			continue
		}
		if w := strings.Trim(strings.ToLower(string(runes[start:i])), "_0123456789"); w != "" {
			out = append(out, w)
		}
		start = i
	}
	return out
}
