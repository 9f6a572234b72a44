package tree

import (
	"errors"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Seen is one device as programs find it in a Tree. Every text in it is read from the files
// of the tree.
type Seen struct {
	Name       string      `json:"name"`
	Path       string      `json:"path"`
	Attributes []Attribute `json:"attributes"`
	Ports      []SeenPort  `json:"ports"`
	Node       SeenNode    `json:"node"`
	Parent     SeenParent  `json:"parent"`
}

// Attribute is a file of sysfs, without the newline at its end.
type Attribute struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	// Errno is what a read of the file returns; empty: it returns Value.
	Errno string `json:"errno,omitempty"`
}

// SeenPort is one port. Empty entries of the GID table are left out.
type SeenPort struct {
	Number     int         `json:"number"`
	Attributes []Attribute `json:"attributes"`
	GIDs       []SeenGID   `json:"gids"`
	PKeys      []string    `json:"pkeys"`
}

// SeenGID is an entry of a port's GID table.
type SeenGID struct {
	Index  int    `json:"index"`
	GID    string `json:"gid"`
	Type   string `json:"type"`
	Netdev string `json:"netdev"`
}

// SeenNode is the character device, with the number that its dev attribute has.
type SeenNode struct {
	Path   string `json:"path"`
	Number string `json:"number"`
	Mode   string `json:"mode"` // octal permission bits
}

// SeenParent is the bus device.
type SeenParent struct {
	Path       string      `json:"path"`
	Subsystem  string      `json:"subsystem"`
	Driver     string      `json:"driver"`
	Attributes []Attribute `json:"attributes"`
}

// Seen returns the devices of the tree, in the order of their names.
func (t *Tree) Seen() []Seen {
	seen := []Seen{}
	for _, name := range t.names(classInfiniband) {
		dir := t.real(classInfiniband + "/" + name)
		s := Seen{
			Name: name, Path: dir, Attributes: t.attributes(dir), Ports: []SeenPort{}, Node: t.charDev(name),
			Parent: t.seenParent(t.real(dir + "/device")),
		}
		for _, number := range t.names(dir + "/ports") {
			s.Ports = append(s.Ports, t.seenPort(dir+"/ports/"+number))
		}
		seen = append(seen, s)
	}
	return seen
}

func (t *Tree) seenPort(dir string) SeenPort {
	number, _ := strconv.Atoi(path.Base(dir))
	p := SeenPort{Number: number, Attributes: t.attributes(dir), GIDs: []SeenGID{}, PKeys: []string{}}
	for i, entry := range t.names(dir + "/gids") {
		attrs := dir + "/gid_attrs/"
		// A read of the attributes of an empty entry fails.
		kind := t.attribute(attrs+"types", entry)
		if kind.Errno == "" {
			p.GIDs = append(p.GIDs, SeenGID{
				Index: i, GID: t.attribute(dir+"/gids", entry).Value, Type: kind.Value,
				Netdev: t.attribute(attrs+"ndevs", entry).Value,
			})
		}
	}
	for _, entry := range t.names(dir + "/pkeys") {
		p.PKeys = append(p.PKeys, t.attribute(dir+"/pkeys", entry).Value)
	}
	return p
}

func (t *Tree) seenParent(dir string) SeenParent {
	return SeenParent{
		Path: dir, Subsystem: path.Base(t.real(dir + "/subsystem")), Driver: path.Base(t.real(dir + "/driver")),
		Attributes: t.attributes(dir),
	}
}

// charDev finds the device node as libibverbs does, by the ibdev attribute.
func (t *Tree) charDev(device string) SeenNode {
	for _, name := range t.names(classVerbs) {
		dir := classVerbs + "/" + name
		if n, err := t.Lookup(dir, true); err != nil || n.Kind != Dir || t.attribute(dir, "ibdev").Value != device {
			continue
		}
		node, err := t.Lookup("/dev/infiniband/"+name, true)
		if err != nil {
			continue
		}
		return SeenNode{
			Path: node.Path, Number: t.attribute(dir, "dev").Value,
			Mode: "0" + strconv.FormatUint(uint64(node.Mode&0o7777), 8),
		}
	}
	return SeenNode{}
}

// attributes reads the files of a directory, without those of its subdirectories.
func (t *Tree) attributes(dir string) []Attribute {
	list := []Attribute{}
	n, err := t.Lookup(dir, true)
	if err != nil {
		return list
	}
	for _, e := range n.Entries() {
		// Of PCI: one is no text, and the other has no resources.
		if e.Kind == File && e.Name != "config" && e.Name != "resource" {
			list = append(list, t.attribute(dir, e.Name))
		}
	}
	return list
}

func (t *Tree) attribute(dir, name string) Attribute {
	a := Attribute{Name: name}
	n, err := t.Lookup(dir+"/"+name, true)
	var content []byte
	if err == nil {
		content, err = n.Content()
	}
	if err != nil {
		errno := unix.EIO
		errors.As(err, &errno)
		a.Errno = unix.ErrnoName(errno)
		return a
	}
	a.Value = strings.TrimSuffix(string(content), "\n")
	return a
}

// names lists a directory.
func (t *Tree) names(dir string) []string {
	n, err := t.Lookup(dir, true)
	if err != nil {
		return nil
	}
	entries := n.Entries()
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name
	}
	return names
}

// real returns the path that p leads to, or "" if it leads nowhere. The subsystem of the
// parent is a directory of the host, which the tree does not have.
func (t *Tree) real(p string) string {
	n, outside, err := t.Walk(p, true)
	switch {
	case err != nil:
		return ""
	case n == nil:
		return path.Clean(outside)
	default:
		return n.Path
	}
}
