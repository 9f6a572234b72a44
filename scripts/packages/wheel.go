package main

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// wheelPlatforms are the platform tags of Python. The binary is static, so it runs with each
// C library (packaging.python.org, "Platform compatibility tags").
var wheelPlatforms = map[string]string{
	"amd64": "manylinux2014_x86_64.musllinux_1_1_x86_64",
	"arm64": "manylinux2014_aarch64.musllinux_1_1_aarch64",
}

var (
	preRelease = regexp.MustCompile(`-(alpha|beta|rc)\.?(\d+)`)
	preNumber  = regexp.MustCompile(`((?:a|b|rc)\d+)\.(\d+)`)
)

// wheelVersion writes a version as Python has it (PEP 440).
func wheelVersion(version string) string {
	public, local, _ := strings.Cut(version, "+")
	public = strings.ReplaceAll(public, "-dev.", ".dev")
	public = preRelease.ReplaceAllStringFunc(public, func(s string) string {
		m := preRelease.FindStringSubmatch(s)
		return map[string]string{"alpha": "a", "beta": "b", "rc": "rc"}[m[1]] + m[2]
	})
	public = preNumber.ReplaceAllString(public, "$1.post$2") // commits after a pre-release
	if local != "" {
		public += "+" + local
	}
	return public
}

// wheel makes the Python package: the binary, and the pytest plugin of dist/python.
func (r *release) wheel(arch, binary string) error {
	version := wheelVersion(r.checkout.version)
	platform, known := wheelPlatforms[arch]
	if !known {
		return fmt.Errorf("wheel: Python has no name for %s", arch)
	}
	info := "gorxe-" + version + ".dist-info/"
	readme, err := os.ReadFile(r.path("dist/python/README.md"))
	if err != nil {
		return err
	}
	w := wheelWriter{release: r, record: info + "RECORD"}
	w.files = []wheelFile{
		{name: "gorxe_pytest.py", source: r.path("dist/python/gorxe_pytest.py")},
		{name: "gorxe-" + version + ".data/scripts/gorxe", source: binary, mode: 0o755},
		{name: info + "licenses/LICENSE", source: r.path("LICENSE")},
		{name: info + "METADATA", text: "Metadata-Version: 2.1\nName: gorxe\nVersion: " + version +
			"\nSummary: A software RDMA (RoCEv2) device in user space, with a pytest plugin\nLicense: Apache-2.0\n" +
			"Project-URL: Source, https://github.com/gorxe/gorxe\nClassifier: Framework :: Pytest\nClassifier: Operating System :: POSIX :: Linux\n" +
			"Requires-Python: >=3.8\nProvides-Extra: pytest\nRequires-Dist: pytest >=7 ; extra == 'pytest'\n" +
			"Description-Content-Type: text/markdown\n\n" + string(readme)},
		{name: info + "WHEEL", text: "Wheel-Version: 1.0\nGenerator: gorxe\nRoot-Is-Purelib: false\n" + wheelTags(platform)},
		{name: info + "entry_points.txt", text: "[pytest11]\ngorxe = gorxe_pytest\n"},
	}
	return r.create(fmt.Sprintf("gorxe-%s-py3-none-%s.whl", version, platform), w.write)
}

func wheelTags(platforms string) string {
	var b strings.Builder
	for p := range strings.SplitSeq(platforms, ".") {
		fmt.Fprintf(&b, "Tag: py3-none-%s\n", p)
	}
	return b.String()
}

// wheelFile is a file in a wheel, with its text or the file that has it.
type wheelFile struct {
	name, source, text string
	mode               os.FileMode // 0o644 if zero
}

type wheelWriter struct {
	*release
	files  []wheelFile
	record string // the name of the list of all files
}

// write writes a zip file whose headers depend on nothing but the commit.
func (w *wheelWriter) write(to io.Writer) error {
	z := zip.NewWriter(to)
	var record strings.Builder
	for _, f := range w.files {
		text := []byte(f.text)
		if f.source != "" {
			var err error
			if text, err = os.ReadFile(filepath.Clean(f.source)); err != nil {
				return err
			}
		}
		sum := sha256.Sum256(text)
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", f.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(text))
		if err := w.add(z, f, text); err != nil {
			return err
		}
	}
	fmt.Fprintf(&record, "%s,,\n", w.record)
	if err := w.add(z, wheelFile{name: w.record}, []byte(record.String())); err != nil {
		return err
	}
	return z.Close()
}

func (w *wheelWriter) add(z *zip.Writer, f wheelFile, text []byte) error {
	h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: w.checkout.date}
	h.SetMode(max(f.mode, 0o644))
	out, err := z.CreateHeader(h)
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}
