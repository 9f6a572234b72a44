package backtrace

import (
	"debug/dwarf"
	"slices"

	"github.com/gorxe/gorxe/internal/explain/sanitize"
)

// inlined returns the frames of an address whose function is f, with lines: the functions that were
// put into f come before it. Without lines, it returns f.
func (im *image) inlined(address uint64, f sanitize.Frame) []sanitize.Frame {
	r := im.lines.Reader()
	unit, err := r.SeekPC(address)
	if err != nil {
		return []sanitize.Frame{f}
	}
	lines, err := im.lines.LineReader(unit)
	if err != nil || lines == nil {
		return []sanitize.Frame{f}
	}
	e, ok := lineAt(lines, address)
	if !ok {
		return []sanitize.Frame{f}
	}
	files := lines.Files()
	list := []sanitize.Frame{}
	file, line := e.File.Name, e.Line
	for _, call := range slices.Backward(im.calls(r, address)) {
		list = append(list, sanitize.Frame{Function: short(im.nameOf(call)), File: short(file), Line: line, Module: f.Module})
		at, _ := call.Val(dwarf.AttrCallFile).(int64)
		n, _ := call.Val(dwarf.AttrCallLine).(int64)
		if at < 0 || at >= int64(len(files)) || files[at] == nil {
			return list
		}
		file, line = files[at].Name, int(n)
	}
	f.File, f.Line = short(file), line
	return append(list, f)
}

// short cuts a name, which a hostile program may have made as long as its file.
func short(name string) string { return name[:min(len(name), mostName)] }

// lineAt returns the row of the line table for an address. LineReader.SeekPC does not find an
// address below the first sequence of the table: the compiler puts main into a section of its own.
func lineAt(lines *dwarf.LineReader, address uint64) (row dwarf.LineEntry, ok bool) {
	row.EndSequence = true
	for {
		var next dwarf.LineEntry
		if lines.Next(&next) != nil {
			return row, false
		}
		if !row.EndSequence && row.Address <= address && address < next.Address {
			return row, row.File != nil
		}
		row = next
	}
}

// calls returns the entries of the functions that were put into others at an address, the outermost
// first, but mostInlined at most. r is behind the entry of a unit.
func (im *image) calls(r *dwarf.Reader, address uint64) (list []*dwarf.Entry) {
	for depth := 1; depth > 0 && len(list) < mostInlined; {
		e, err := r.Next()
		if err != nil || e == nil {
			return list
		}
		switch e.Tag {
		case 0:
			depth--
			continue
		case dwarf.TagNamespace: // LLVM puts functions into it
		case dwarf.TagSubprogram, dwarf.TagInlinedSubroutine, dwarf.TagLexDwarfBlock:
			if !im.covers(e, address) {
				r.SkipChildren()
				continue
			}
			if e.Tag == dwarf.TagInlinedSubroutine {
				list = append(list, e)
			}
		default:
			r.SkipChildren()
			continue
		}
		if e.Children {
			depth++
		}
	}
	return list
}

func (im *image) covers(e *dwarf.Entry, address uint64) bool {
	ranges, err := im.lines.Ranges(e)
	return err == nil && slices.ContainsFunc(ranges, func(r [2]uint64) bool { return r[0] <= address && address < r[1] })
}

// nameOf returns the name of a function that was put into another: with its namespace or class, if
// the compiler has noted a name for the linker.
func (im *image) nameOf(e *dwarf.Entry) (name string) {
	const most = 4 // references from one entry to another
	for range most {
		if linkage, ok := e.Val(dwarf.AttrLinkageName).(string); ok {
			return readableName(linkage)
		}
		if own, ok := e.Val(dwarf.AttrName).(string); ok && name == "" {
			name = own
		}
		at, ok := e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset)
		if !ok {
			if at, ok = e.Val(dwarf.AttrSpecification).(dwarf.Offset); !ok {
				break
			}
		}
		r := im.lines.Reader()
		r.Seek(at)
		next, err := r.Next()
		if err != nil || next == nil {
			break
		}
		e = next
	}
	return name
}
