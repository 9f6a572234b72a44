package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorxe/gorxe/cmd/internal/doctor"
	"github.com/gorxe/gorxe/internal/explain"
	"github.com/gorxe/gorxe/internal/pcap/ladder"
	"github.com/gorxe/gorxe/internal/service/proto"
)

var updateSchemas = flag.Bool("update-schemas", false, "write docs/schema again, with its descriptions")

// schema is the part of JSON Schema 2020-12 that docs/schema uses.
type schema struct {
	Schema      string             `json:"$schema,omitempty"`
	Title       string             `json:"title,omitempty"`
	Description string             `json:"description,omitempty"`
	Type        string             `json:"type"`
	Format      string             `json:"format,omitempty"`
	Pattern     string             `json:"pattern,omitempty"`
	Enum        []string           `json:"enum,omitempty"`
	Properties  map[string]*schema `json:"properties,omitempty"`
	Required    []string           `json:"required,omitempty"`
	Items       *schema            `json:"items,omitempty"`
	// false, or the schema of each value
	Additional any `json:"additionalProperties,omitempty"`
}

// schemaOf returns what a type is encoded as.
func schemaOf(t reflect.Type) *schema {
	switch {
	case t.Kind() == reflect.Pointer:
		return schemaOf(t.Elem())
	case t == reflect.TypeFor[time.Time]():
		return &schema{Type: "string", Format: "date-time"}
	case t == reflect.TypeFor[doctor.Level]():
		return &schema{Type: "string"} // MarshalText
	}
	switch t.Kind() {
	case reflect.Bool:
		return &schema{Type: "boolean"}
	case reflect.Int, reflect.Int64, reflect.Uint32, reflect.Uint64:
		return &schema{Type: "integer"}
	case reflect.Float64:
		return &schema{Type: "number"}
	case reflect.String:
		return &schema{Type: "string"}
	case reflect.Slice:
		return &schema{Type: "array", Items: schemaOf(t.Elem())}
	case reflect.Map:
		return &schema{Type: "object", Additional: schemaOf(t.Elem())}
	case reflect.Struct:
		s := &schema{Type: "object", Properties: make(map[string]*schema), Additional: false}
		for i := range t.NumField() {
			name, rest, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			s.Properties[name] = schemaOf(t.Field(i).Type)
			if !strings.Contains(rest, "omitempty") {
				s.Required = append(s.Required, name)
			}
		}
		slices.Sort(s.Required)
		return s
	default:
		panic(t)
	}
}

// children are the schemas below one.
func (s *schema) children() map[string]*schema {
	all := maps.Clone(s.Properties)
	if all == nil {
		all = make(map[string]*schema)
	}
	if s.Items != nil {
		all["[]"] = s.Items
	}
	if x, ok := s.Additional.(*schema); ok {
		all["*"] = x
	}
	return all
}

// describe takes over from another schema what a type does not say.
func (s *schema) describe(from *schema) {
	s.Schema, s.Title, s.Description, s.Pattern, s.Enum = from.Schema, from.Title, from.Description, from.Pattern, from.Enum
	had := from.children()
	for name, x := range s.children() {
		if had[name] != nil {
			x.describe(had[name])
		}
	}
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *schema) UnmarshalJSON(text []byte) error {
	type plain schema
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode((*plain)(s)); err != nil {
		return err
	}
	if values, ok := s.Additional.(map[string]any); ok {
		again, err := json.Marshal(values)
		if err != nil {
			return err
		}
		x := new(schema)
		s.Additional = x
		return json.Unmarshal(again, x)
	}
	return nil
}

// check returns what is wrong with a value.
func (s *schema) check(v any, at string) (wrong []string) {
	is := map[string]bool{}
	switch x := v.(type) {
	case bool:
		is["boolean"] = true
	case json.Number:
		_, err := x.Int64()
		is["number"], is["integer"] = true, err == nil || !strings.ContainsAny(x.String(), ".eE")
	case string:
		is["string"] = true
		if s.Pattern != "" && !regexp.MustCompile(s.Pattern).MatchString(x) || s.Enum != nil && !slices.Contains(s.Enum, x) {
			wrong = append(wrong, fmt.Sprintf("%s is %q", at, x))
		}
		if _, err := time.Parse(time.RFC3339Nano, x); s.Format == "date-time" && err != nil {
			wrong = append(wrong, fmt.Sprintf("%s is %q", at, x))
		}
	case []any:
		is["array"] = true
		for i := range x {
			wrong = append(wrong, s.Items.check(x[i], fmt.Sprintf("%s[%d]", at, i))...)
		}
	case map[string]any:
		is["object"] = true
		for _, name := range s.Required {
			if _, ok := x[name]; !ok {
				wrong = append(wrong, at+" lacks "+name)
			}
		}
		for name, value := range x {
			below, ok := s.Properties[name]
			if values, any := s.Additional.(*schema); !ok && any {
				below, ok = values, true
			}
			if !ok {
				wrong = append(wrong, at+" has "+name)
				continue
			}
			wrong = append(wrong, below.check(value, at+"."+name)...)
		}
	}
	if !is[s.Type] {
		wrong = append(wrong, fmt.Sprintf("%s is %v, no %s", at, v, s.Type))
	}
	return wrong
}

// TestSchemas: docs/schema says what the JSON of show, top, watch and doctor is: each key, with
// words. What the commands print has that form.
func TestSchemas(t *testing.T) {
	for name, is := range map[string]reflect.Type{
		"pcap-show": reflect.TypeFor[ladder.JSONPacket](), "top": reflect.TypeFor[topReport](), "watch": reflect.TypeFor[occurrence](), "doctor": reflect.TypeFor[[]doctor.Finding](),
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join("../../docs/schema", name+".json")
			text, err := os.ReadFile(file)
			if err != nil && !*updateSchemas {
				t.Fatal(err)
			}
			said := new(schema)
			if len(text) > 0 {
				if err := json.Unmarshal(text, said); err != nil {
					t.Fatalf("%s: %v", file, err)
				}
			}
			want := schemaOf(is)
			want.describe(said)
			full, err := json.MarshalIndent(want, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			if full = append(full, '\n'); *updateSchemas {
				if err := os.WriteFile(file, full, 0o666); err != nil {
					t.Fatal(err)
				}
			} else if !bytes.Equal(full, text) {
				t.Errorf("%s is not what the code prints: go test ./cmd/gorxe -run TestSchemas -update-schemas", file)
			}
			var undescribed []string
			var walk func(s *schema, at string)
			walk = func(s *schema, at string) {
				for name, x := range s.children() {
					if _, property := s.Properties[name]; property && x.Description == "" {
						undescribed = append(undescribed, at+"."+name)
					}
					walk(x, at+"."+name)
				}
			}
			if walk(want, name); len(undescribed) > 0 || want.Title == "" {
				slices.Sort(undescribed)
				t.Errorf("no words for %q", undescribed)
			}
			n := 0
			d := json.NewDecoder(strings.NewReader(printed(t, name)))
			for d.UseNumber(); d.More(); n++ {
				var v any
				if err := d.Decode(&v); err != nil {
					t.Fatal(err)
				}
				if wrong := want.check(v, "it"); len(wrong) > 0 {
					t.Errorf("%v in %v", wrong, v)
				}
			}
			if n == 0 {
				t.Error("nothing was printed")
			}
		})
	}
	s := schema{Type: "object", Properties: map[string]*schema{"qp": {Type: "string", Pattern: "^0x"}}, Required: []string{"qp"}, Additional: false}
	for _, v := range []any{"x", map[string]any{}, map[string]any{"qp": "7"}, map[string]any{"qp": json.Number("7")}, map[string]any{"qp": "0x7", "more": true}} {
		if len(s.check(v, "it")) == 0 {
			t.Errorf("%v passes", v)
		}
	}
}

// printed returns what a command prints with --json.
func printed(t *testing.T, name string) string {
	t.Helper()
	out := new(strings.Builder)
	switch name {
	case "pcap-show":
		for _, file := range []string{"allops_err_gid1.pcap", "rping.pcap", "netem_corrupt2.pcap"} {
			code, stdout, stderr := gorxe(t, "pcap", "show", "--json", "-v", "../../testdata/pcaps/"+file)
			if code != exitOK {
				t.Fatal(stderr)
			}
			out.WriteString(stdout)
		}
	case "top":
		code, stdout, stderr := gorxe(t, "top", "--json", "--count", "1", "--socket", fakeDaemon(t, topStatus(map[string]uint64{"sent_packets": 9})))
		if code != exitOK {
			t.Fatal(stderr)
		}
		out.WriteString(stdout)
	case "watch":
		var w watching
		failed := []proto.Errors{{Session: 3, Errors: []explain.Record{{Time: time.Now(), PID: 7, Device: "rxe0", QPN: 0x11, Kind: explain.Completion, What: "it failed"}}}}
		for _, o := range w.look(topStatus(nil), failed, time.Now()) {
			if err := (watchCmd{JSON: true}).print(out, &o); err != nil {
				t.Fatal(err)
			}
		}
	case "doctor":
		if err := writeJSON(out, []doctor.Finding{{Subject: "kernel", Level: doctor.OK, Text: "Linux 6.1"}, {Subject: "open files", Level: doctor.Failure, Text: "none", Remedy: "ulimit -n"}}); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}
