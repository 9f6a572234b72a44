package sanitize

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
)

// sample is a report with one finding.
func sample() *Report {
	return &Report{Findings: []Finding{{
		Check: keyRange, Level: Error, Program: "prog", What: "3 bytes past the end", Objects: []string{"queue pair 0x11", "memory region 0x1100"}, Count: 2,
		Places: []Place{
			{What: "the SEND was posted", Lines: []Frame{{Function: "ibv_post_send", Module: "libibverbs.so.1"}, {Function: "work", File: "/src/a b.c", Line: 7, Module: "prog"}}},
			{What: "the region was registered", Lines: []Frame{{Function: "main", File: "/src/main.c", Line: 88, Module: "prog"}}},
			{What: "by a thread that is not known"},
		}}}}
}

// TestSuppressions: a line suppresses what it names, and nothing else.
func TestSuppressions(t *testing.T) {
	for text, want := range map[string]bool{
		"":                                         false,
		"# key-range":                              false,
		"leak":                                     false,
		"key-range":                                true,
		"keys":                                     true,
		"all":                                      true,
		"  key-range ":                             true,
		"leak\nkey-range":                          true,
		"key-range,function=work":                  true,
		"key-range,function=wo*":                   true,
		"key-range,function=other":                 false,
		"key-range,function=work,file=main.c":      false,
		"key-range,function=main,file=main.c":      true,
		"key-range,module=libibverbs.*":            true,
		"key-range,object=memory region":           true,
		"key-range,object=queue pair 0x11":         true,
		"key-range,object=queue pair 0x12":         false,
		"key-range,object=completion queue":        false,
		"key-range,program=prog":                   true,
		"key-range,program=prog2":                  false,
		"key-range, object=memory*, function=main": true,
	} {
		list, err := ParseSuppressions(strings.NewReader(text))
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		r := sample()
		if r.Suppress(list); r.Findings[0].Suppressed != want || (r.Count(Error) == 0) != want || (len(r.Worst()) == 0) != want {
			t.Errorf("%q: suppressed %v, want %v", text, r.Findings[0].Suppressed, want)
		}
		var b strings.Builder
		if r.Write(&b); want != (b.String() == "gorxe: sanitizer: 0 errors, 0 warnings, 0 notes; 1 suppressed\n") {
			t.Errorf("%q: %s", text, b.String())
		}
	}
}

// TestPlaces: the text has the lines of each place, also those that were known at once, and says
// where there are none.
func TestPlaces(t *testing.T) {
	r := sample()
	r.Findings[0].Places[1] = Place{What: "the region was registered", Stack: &Stack{Lines: []Frame{{Function: "main.main", File: "/src/main.go", Line: 88}}}}
	var b strings.Builder
	r.Write(&b)
	for _, want := range []string{
		"the SEND was posted\n      #0 ibv_post_send+0x0 (libibverbs.so.1)\n      #1 /src/a b.c:7 in work\n",
		"the region was registered\n      #0 /src/main.go:88 in main.main\n",
		"by a thread that is not known\n      where is not known\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in:\n%s", want, b.String())
		}
	}
}

// TestSuppressionsRefused: the error names the word at fault, and its line.
func TestSuppressionsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"leak\n\nkeyrange": `line 3: "keyrange" is no check`,
		"leak,fun=x":       `line 1: "fun=x" is no key with a value`,
		"leak,function":    `line 1: "function" is no key with a value`,
		"leak,function=":   `line 1: "function=" is no key with a value`,
		"leak,function=[":  `line 1: "[" is no pattern`,
		"-leak":            `line 1: "-leak" is no check`,
	} {
		if _, err := ParseSuppressions(strings.NewReader(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// TestBrief: a finding in one line. A function of a header of the verbs is not the program's line.
func TestBrief(t *testing.T) {
	r := sample()
	p := &r.Findings[0].Places[0]
	p.Lines = append([]Frame{{Function: "ibv_post_send", File: "/usr/include/infiniband/verbs.h", Line: 3342}}, p.Lines...)
	if got, want := r.Findings[0].Brief(), sample().Findings[0].Brief(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := sample().Findings[0].Brief(), "key-range: 3 bytes past the end (2 times) (a b.c:7)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// required has, for each kind of object in our SARIF, the properties that the schema of SARIF 2.1.0
// requires, and those that code scanning of GitHub needs.
var required = map[string][]string{
	"": {"version", "runs"}, "runs": {"tool", "results"}, "tool": {"driver"}, "driver": {"name", "rules"}, "rules": {"id", "shortDescription"},
	"results": {"message", "ruleId", "level", "locations"}, "message": {"text"}, "stacks": {"frames"}, "frames": {"location"},
	"suppressions": {"kind"}, "physicalLocation": {"artifactLocation"}, "artifactLocation": {"uri"}, "region": {"startLine"},
}

// TestSARIF: the report for code review has the lines, and what its schema requires.
func TestSARIF(t *testing.T) {
	r := sample()
	r.Findings = append(r.Findings, Finding{Check: leak, Level: Note, Program: "my prog", What: "a region", Suppressed: true})
	text, err := json.MarshalIndent(r.SARIF("1.2", "/src/"), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	var walk func(name string, v any)
	walk = func(name string, v any) {
		switch v := v.(type) {
		case []any:
			for _, x := range v {
				walk(name, x)
			}
		case map[string]any:
			seen[name] = true
			for _, key := range required[name] {
				if v[key] == nil {
					t.Errorf("%s lacks %s", name, key)
				}
			}
			for key, x := range v {
				walk(key, x)
			}
		}
	}
	walk("", v)
	for name := range required {
		if !seen[name] {
			t.Errorf("there is no %s", name)
		}
	}
	for _, want := range []string{
		`"$schema": "https://json.schemastore.org/sarif-2.1.0.json"`, `"uri": "a%20b.c"`, `"uriBaseId": "%SRCROOT%"`, `"startLine": 88`,
		`"uri": "my%20prog"`, `"kind": "external"`, `"level": "note"`, `"occurrenceCount": 2`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is missing in\n%s", want, text)
		}
	}
	if at := artifact("/other/x.c", "/src"); at != (SARIFArtifact{URI: "file:///other/x.c"}) {
		t.Error(at)
	}
}

// TestHostileNames: names of a program do to a terminal nothing but show.
func TestHostileNames(t *testing.T) {
	const hostile = "a\x1b]0;b\a\nc\x9b\xffd\u009be\u202ef\u2028g"
	r := Report{Findings: []Finding{{Check: keyRange, Level: Error, Program: hostile, Places: []Place{{Lines: []Frame{
		{Function: hostile, File: hostile, Module: hostile}, {Function: hostile, Module: hostile}, {Module: hostile}}}}}}}
	var b strings.Builder
	r.Write(&b)
	for _, line := range strings.Split(b.String(), "\n") {
		if strings.ContainsFunc(line, func(c rune) bool { return !unicode.IsGraphic(c) }) {
			t.Errorf("%q", line)
		}
	}
	if n := strings.Count(b.String(), "\n"); n != 8 {
		t.Errorf("%d lines:\n%s", n, b.String())
	}
}
