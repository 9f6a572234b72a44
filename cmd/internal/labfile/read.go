package labfile

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/internal/fault/rulefile/yamltext"
)

// The kinds of nodes.
const (
	kindHost   = "linux"
	kindSwitch = "bridge"
)

// file is a file that is being read.
type file struct {
	lab      *Lab
	kinds    map[string]string // of the nodes
	defaults *yaml.Node
	// addresses that exec gives to NODE:INTERFACE
	given map[string]*yaml.Node
}

// keys are those of a mapping, each with what reads its value. A nil function: the key describes
// a container or its management network, which a lab does not have, and changes nothing here.
type keys map[string]func(*yaml.Node) error

// each calls the functions of the keys of a mapping.
func (k keys) each(n *yaml.Node, what string) error {
	if n.Kind != yaml.MappingNode {
		return yamltext.At(n, "expected %s with keys, and not %s", what, kindOf(n))
	}
	seen := make(map[string]bool)
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			return yamltext.At(key, "expected the name of a key, and not %s", kindOf(key))
		}
		read, known := k[key.Value]
		switch {
		case !known:
			return yamltext.At(key, "%s: unknown: %s has the keys %s", key.Value, what, strings.Join(slices.Sorted(maps.Keys(k)), ", "))
		case seen[key.Value]:
			return yamltext.At(key, "%s is given twice", key.Value)
		case read == nil:
			continue
		}
		seen[key.Value] = true
		if err := read(value); err != nil {
			return err
		}
	}
	return nil
}

func (f *file) read(n *yaml.Node) error {
	var topology *yaml.Node
	err := keys{
		"name":     func(n *yaml.Node) error { return text(n, "name", &f.lab.Name) },
		"topology": func(n *yaml.Node) error { topology = n; return nil },
		"prefix":   nil, "mgmt": nil,
	}.each(n, "a lab")
	if err != nil {
		return err
	}
	if topology == nil {
		return yamltext.At(n, "the lab has no key topology")
	}
	var nodes, links *yaml.Node
	err = keys{
		"defaults": func(n *yaml.Node) error { f.defaults = n; return nil },
		"nodes":    func(n *yaml.Node) error { nodes = n; return nil },
		"links":    func(n *yaml.Node) error { links = n; return nil },
	}.each(topology, "a topology")
	switch {
	case err != nil:
		return err
	case nodes == nil:
		return yamltext.At(topology, "the topology has no key nodes")
	case links == nil:
		return yamltext.At(topology, "the topology has no key links")
	}
	if err := f.nodes(nodes); err != nil {
		return err
	}
	return f.links(links)
}

// nameOf is what a node may be called. It is a word of commands and the name of a host.
var nameOf = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)

func (f *file) nodes(n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return yamltext.At(n, "expected the names of nodes, as in \"h1: {kind: linux}\", and not %s", kindOf(n))
	}
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			return yamltext.At(key, "expected the name of a node, and not %s", kindOf(key))
		}
		names, err := expand(key, key.Value)
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := f.node(key, name, value); err != nil {
				return err
			}
		}
	}
	if len(f.lab.Hosts) == 0 {
		return yamltext.At(n, "the lab has no host: one is a node of kind %s", kindHost)
	}
	return nil
}

// node reads one node.
func (f *file) node(key *yaml.Node, name string, n *yaml.Node) error {
	switch {
	case !nameOf.MatchString(name):
		return yamltext.At(key, "%q: a name has letters, digits, dots, underscores and dashes, 63 at most", name)
	case f.kinds[name] != "":
		return yamltext.At(key, "two nodes have the name %s", name)
	}
	h, kind, entrypoint := Host{Name: name, line: key.Line, col: key.Column}, kindHost, ""
	for _, n := range []*yaml.Node{f.defaults, n} {
		if n == nil || n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
			continue
		}
		if err := f.nodeKeys(&h, &kind, &entrypoint).each(n, "a node"); err != nil {
			return err
		}
	}
	if entrypoint != "" {
		h.Command = nil // cmd has arguments for a program of the image
	}
	f.kinds[name] = kind
	if kind == kindSwitch {
		if err := noHost(name, n); err != nil {
			return err
		}
	}
	switch {
	case kind == kindSwitch && len(f.lab.Switches) == maxSwitches:
		return yamltext.At(key, "the lab has more than %d switches", maxSwitches)
	case kind == kindSwitch:
		f.lab.Switches = append(f.lab.Switches, name)
	case len(f.lab.Hosts) == maxHosts:
		return yamltext.At(key, "the lab has more than %d hosts", maxHosts)
	default:
		f.lab.Hosts = append(f.lab.Hosts, h)
	}
	return nil
}

// ofHosts are the keys of a node that mean nothing at a switch, which runs no program.
var ofHosts = []string{"cmd", "entrypoint", "env", "exec", "wait-for", "ready-when", "background"}

// noHost returns the error of a switch with a key that only a host has. The defaults are for hosts.
func noHost(name string, n *yaml.Node) error {
	for i := 0; i < len(n.Content); i += 2 {
		if key := n.Content[i]; slices.Contains(ofHosts, key.Value) {
			return yamltext.At(key, "%s: %s is a switch (kind: %s), which runs no program: the key is for hosts", key.Value, name, kindSwitch)
		}
	}
	return nil
}

func (f *file) nodeKeys(h *Host, kind, entrypoint *string) keys {
	return keys{
		"kind": func(n *yaml.Node) error {
			if n.Value != kindHost && n.Value != kindSwitch {
				return yamltext.At(n, "kind: %s: a node is a host (%s) or a switch (%s)", kindOf(n), kindHost, kindSwitch)
			}
			*kind = n.Value
			return nil
		},
		"cmd":        func(n *yaml.Node) (err error) { h.Command, err = command(n); return err },
		"entrypoint": func(n *yaml.Node) error { return text(n, "entrypoint", entrypoint) },
		"env":        func(n *yaml.Node) (err error) { h.Env, err = environment(n, h.Env); return err },
		"exec":       func(n *yaml.Node) error { return f.exec(h.Name, n) },
		"wait-for":   func(n *yaml.Node) (err error) { h.WaitFor, err = f.names(n); return err },
		"ready-when": func(n *yaml.Node) (err error) { h.ReadyWhen, err = expression(n); return err },
		"background": func(n *yaml.Node) error { return boolean(n, "background", &h.Background) },
		"image":      nil, "image-pull-policy": nil, "restart-policy": nil, "labels": nil, "group": nil,
		"mgmt-ipv4": nil, "mgmt-ipv6": nil, "ports": nil, "cpu": nil, "cpu-set": nil, "memory": nil,
	}
}

// command reads a list of words, or a line for the shell.
func command(n *yaml.Node) ([]string, error) {
	if n.Kind == yaml.ScalarNode {
		var line string
		if err := text(n, "cmd", &line); err != nil {
			return nil, err
		}
		return []string{"sh", "-c", line}, nil
	}
	return list(n, "cmd")
}

func environment(n *yaml.Node, env []string) ([]string, error) {
	if n.Kind != yaml.MappingNode {
		return nil, yamltext.At(n, "expected the variables of env, as in \"NAME: value\", and not %s", kindOf(n))
	}
	env = slices.Clone(env)
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode || value.Kind != yaml.ScalarNode || strings.ContainsAny(key.Value, "=\x00") || strings.Contains(value.Value, "\x00") {
			return nil, yamltext.At(key, "env: a variable has a name without an equals sign, and one value")
		}
		env = append(env, key.Value+"="+value.Value)
	}
	return env, nil
}

func expression(n *yaml.Node) (*regexp.Regexp, error) {
	var is string
	if err := text(n, "ready-when", &is); err != nil {
		return nil, err
	}
	re, err := regexp.Compile(is)
	if err != nil {
		return nil, yamltext.At(n, "ready-when: %q is not a regular expression: %w", is, err)
	}
	return re, nil
}

// addressOf is the only command of exec that a lab executes: it has no containers, and its programs
// may not change their network.
var addressOf = regexp.MustCompile(`^ip +a(?:d|dd|ddr|ddress)? +add +(\S+) +dev +(\S+)$`)

// exec reads the addresses that containerlab's files give to interfaces.
func (f *file) exec(host string, n *yaml.Node) error {
	lines, err := list(n, "exec")
	if err != nil {
		return err
	}
	for i, line := range lines {
		if m := addressOf.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			if f.given == nil {
				f.given = make(map[string]*yaml.Node)
			}
			at := *n.Content[i]
			at.Value = m[1]
			f.given[host+":"+m[2]] = &at
			continue
		}
		if !linkUp.MatchString(strings.TrimSpace(line)) {
			return yamltext.At(n.Content[i], "exec: %q: a lab executes only \"ip addr add ADDRESS dev INTERFACE\" there: cmd has the program of a host", line)
		}
	}
	return nil
}

var linkUp = regexp.MustCompile(`^ip +l(?:ink)? +set +(?:dev +)?\S+ +up$`)

// names reads a list of nodes, whose names may have ranges.
func (f *file) names(n *yaml.Node) (names []string, err error) {
	words, err := list(n, "wait-for")
	if err != nil {
		return nil, err
	}
	for i, w := range words {
		some, err := expand(n.Content[i], w)
		if err != nil {
			return nil, err
		}
		names = append(names, some...)
	}
	return names, nil
}

func (f *file) links(n *yaml.Node) error {
	if n.Kind != yaml.SequenceNode {
		return yamltext.At(n, "expected a list of links, as in \"- endpoints: [\"h1:eth1\", \"leaf\"]\", and not %s", kindOf(n))
	}
	for _, n := range n.Content {
		if err := f.link(n); err != nil {
			return err
		}
	}
	return nil
}

// link reads one entry of the list, which may be many links.
func (f *file) link(n *yaml.Node) error {
	var ends *yaml.Node
	l := Link{MTU: 1500, line: n.Line, col: n.Column}
	k := keys{
		"endpoints": func(n *yaml.Node) error { ends = n; return nil },
		"mtu":       func(n *yaml.Node) error { return number(n, "mtu", 576, 65535, &l.MTU) },
		"labels":    nil, "vars": nil,
	}
	for _, key := range []string{"rate", "latency", "queue", "loss", "ecn"} {
		k[key] = func(n *yaml.Node) error { return l.shape(key, n) }
	}
	if err := k.each(n, "a link"); err != nil {
		return err
	}
	if l.Shape != "" {
		if _, err := fault.Parse("packet shape," + l.Shape); err != nil {
			return yamltext.At(n, "%s", strings.Replace(reason(err), "packet shape", "a link", 1))
		}
	}
	if ends == nil || ends.Kind != yaml.SequenceNode || len(ends.Content) != 2 {
		return yamltext.At(n, "a link has two endpoints, as in endpoints: [\"h1:eth1\", \"leaf\"]")
	}
	var many [2][]string
	for i, n := range ends.Content {
		if n.Kind != yaml.ScalarNode {
			return yamltext.At(n, "expected an endpoint, as in \"h1:eth1\", and not %s", kindOf(n))
		}
		var err error
		if many[i], err = expand(n, n.Value); err != nil {
			return err
		}
	}
	a, b := many[0], many[1]
	if len(a) != len(b) && len(a) != 1 && len(b) != 1 {
		return yamltext.At(ends, "the endpoints are %d and %d: give as many on both sides, or one on one side", len(a), len(b))
	}
	for i := range max(len(a), len(b)) {
		if len(f.lab.Links) == maxLinks {
			return yamltext.At(n, "the lab has more than %d links", maxLinks)
		}
		for j, text := range []string{a[min(i, len(a)-1)], b[min(i, len(b)-1)]} {
			node, port, _ := strings.Cut(text, ":")
			l.Ends[j] = End{node, port}
		}
		f.lab.Links = append(f.lab.Links, l)
	}
	return nil
}

// shape takes a key of the link's model.
func (l *Link) shape(key string, n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode || n.Value == "" || strings.ContainsAny(n.Value, ", ") {
		return yamltext.At(n, "%s: expected one value, and not %s", key, kindOf(n))
	}
	alone := "packet shape," + key + "=" + n.Value
	switch key {
	case "queue":
		alone += ",rate=1gbit"
	case "ecn":
		alone += ",rate=1gbit,queue=100000"
	}
	if _, err := fault.Parse(alone); err != nil {
		return yamltext.At(n, "%s: %s: %s", key, n.Value, reason(err))
	}
	l.Shape = strings.TrimPrefix(l.Shape+","+key+"="+n.Value, ",")
	return nil
}

// ranges are as in h[1-32], or h[01-32] for names of one length.
var ranges = regexp.MustCompile(`\[(\d{1,6})-(\d{1,6})\]`)

// expand returns the names that a name with ranges stands for.
func expand(n *yaml.Node, name string) ([]string, error) {
	m := ranges.FindStringSubmatchIndex(name)
	if m == nil {
		return []string{name}, nil
	}
	from, to := name[m[2]:m[3]], name[m[4]:m[5]]
	first, _ := strconv.Atoi(from) // digits
	last, _ := strconv.Atoi(to)
	rest := name[m[1]:]
	switch {
	case first > last:
		return nil, yamltext.At(n, "%s: the range ends before it begins", name)
	case ranges.MatchString(rest):
		return nil, yamltext.At(n, "%s: a name has one range", name)
	case last-first >= maxLinks:
		return nil, yamltext.At(n, "%s: the range has %d names: a lab has %d hosts and %d links at most", name, last-first+1, maxHosts, maxLinks)
	}
	width := 0
	if strings.HasPrefix(from, "0") {
		width = len(from) // as the shell's {01..12} has it
	}
	names := make([]string, 0, last-first+1)
	for i := first; i <= last; i++ {
		names = append(names, fmt.Sprintf("%s%0*d%s", name[:m[0]], width, i, rest))
	}
	return names, nil
}
