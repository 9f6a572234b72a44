package interop

import (
	"bytes"
	"compress/gzip"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// kernel is a kernel image and its modules, unpacked.
type kernel struct {
	suite string // of Debian
	dir   string
}

// download returns the directory of a suite's kernel, from the cache or from the
// archive.
func download(suite string) (string, error) {
	cmd := exec.Command("../../../scripts/debian-kernel.sh", suite)
	cmd.Stderr = os.Stderr
	dir, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("debian-kernel.sh %s: %w", suite, err)
	}
	return strings.TrimSpace(string(dir)), nil
}

// since is the version of Linux that brought a feature to rdma_rxe.
type since struct{ major, minor int }

var (
	atomicWrite = since{6, 2}
	flush       = since{6, 3}
)

// has reports whether the kernel is that version or newer.
func (l *laboratory) has(feature since) bool {
	image, err := l.kernel.image()
	if err != nil {
		return false
	}
	var v since
	if _, err := fmt.Sscanf(filepath.Base(image), "vmlinuz-%d.%d.", &v.major, &v.minor); err != nil {
		return false
	}
	return v.major > feature.major || v.major == feature.major && v.minor >= feature.minor
}

func (k kernel) image() (string, error) { return k.one("boot/vmlinuz-*") }

func (k kernel) one(pattern string) (string, error) {
	found, err := filepath.Glob(filepath.Join(k.dir, pattern))
	if err == nil && len(found) != 1 {
		err = fmt.Errorf("%d files %s in %s: remove that directory, and it is made again", len(found), pattern, k.dir)
	}
	if err != nil {
		return "", err
	}
	return found[0], nil
}

// guestModules are the modules that the guest needs. A module that a kernel lacks, or has
// compiled in, is left out.
var guestModules = []string{
	"virtio_pci", "virtio_net", "virtio_console", "9pnet_virtio", "9p", "overlay",
	"crc32-pclmul", "crc32_generic", "rdma_rxe", "ib_uverbs", "rdma_ucm", "ib_umad",
	"sch_netem", "sch_ingress", "sch_prio", "cls_matchall", "cls_u32", "act_mirred", "act_gact", "ifb",
}

// initramfs packs the program and the modules, numbered in the order of their
// dependencies.
func (k kernel) initramfs(init []byte) ([]byte, error) {
	files, err := k.modules()
	if err != nil {
		return nil, err
	}
	var order []string
	for _, name := range guestModules {
		if order, err = files.appendWithDependencies(order, name); err != nil {
			return nil, err
		}
	}
	var archive cpio
	archive.dir("dev")
	archive.dir("modules")
	archive.file("init", 0o755, init)
	for i, name := range order {
		archive.file(fmt.Sprintf("modules/%03d-%s.ko", i, name), 0o644, files[name].data)
	}
	archive.entry("TRAILER!!!", 0, nil)
	var packed bytes.Buffer
	z, _ := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if _, err := z.Write(archive.buf.Bytes()); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}

// modules are a kernel's, by name with underscores.
type modules map[string]*module

type module struct {
	path string
	data []byte // once it was read
}

func moduleName(name string) string { return strings.ReplaceAll(name, "-", "_") }

func (k kernel) modules() (modules, error) {
	all := modules{}
	err := filepath.WalkDir(filepath.Join(k.dir, "lib/modules"), func(path string, d fs.DirEntry, err error) error {
		if name, _, ok := strings.Cut(filepath.Base(path), ".ko"); ok && err == nil && d.Type().IsRegular() {
			all[moduleName(name)] = &module{path: path}
		}
		return err
	})
	return all, err
}

// appendWithDependencies appends the modules that a module needs, and then the module,
// unless they are there already.
func (all modules) appendWithDependencies(order []string, name string) ([]string, error) {
	name = moduleName(name)
	m := all[name]
	if m == nil || slices.Contains(order, name) {
		return order, nil
	}
	if err := m.load(); err != nil {
		return nil, err
	}
	needs, err := m.depends()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.path, err)
	}
	for _, other := range needs {
		if order, err = all.appendWithDependencies(order, other); err != nil {
			return nil, err
		}
	}
	return append(order, name), nil
}

func (m *module) load() (err error) {
	if filepath.Ext(m.path) == ".xz" {
		m.data, err = exec.Command("xz", "-dc", m.path).Output()
	} else {
		m.data, err = os.ReadFile(m.path)
	}
	return err
}

// depends reads "depends=a,b" from the module's own description.
func (m *module) depends() ([]string, error) {
	file, err := elf.NewFile(bytes.NewReader(m.data))
	if err != nil {
		return nil, err
	}
	section := file.Section(".modinfo")
	if section == nil {
		return nil, errors.New("no module: it has no section .modinfo")
	}
	text, err := section.Data()
	if err != nil {
		return nil, err
	}
	for entry := range strings.SplitSeq(string(text), "\x00") {
		if list, ok := strings.CutPrefix(entry, "depends="); ok && list != "" {
			return strings.Split(list, ","), nil
		}
	}
	return nil, nil
}

// cpio writes an archive in the form "newc", which the kernel unpacks.
type cpio struct {
	buf bytes.Buffer
	ino int
}

func (c *cpio) dir(name string)                         { c.entry(name, 0o040755, nil) }
func (c *cpio) file(name string, mode int, data []byte) { c.entry(name, 0o100000|mode, data) }

func (c *cpio) entry(name string, mode int, data []byte) {
	c.ino++
	// magic, ino, mode, uid, gid, nlink, mtime, size, device and rdevice, length
	// of the name with its zero, checksum.
	fmt.Fprintf(&c.buf, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X",
		c.ino, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name)+1, 0)
	c.buf.WriteString(name + "\x00")
	c.pad()
	c.buf.Write(data)
	c.pad()
}

func (c *cpio) pad() {
	for c.buf.Len()%4 != 0 {
		c.buf.WriteByte(0)
	}
}
