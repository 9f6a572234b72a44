package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The parts of SPDX 2.3 that say which modules a binary has.
type spdx struct {
	Version   string         `json:"spdxVersion"`
	License   string         `json:"dataLicense"`
	ID        string         `json:"SPDXID"`
	Name      string         `json:"name"`
	Namespace string         `json:"documentNamespace"`
	Creation  spdxCreation   `json:"creationInfo"`
	Packages  []spdxPackage  `json:"packages"`
	Relations []spdxRelation `json:"relationships"`
}

type spdxCreation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type spdxPackage struct {
	ID        string         `json:"SPDXID"`
	Name      string         `json:"name"`
	Version   string         `json:"versionInfo"`
	Location  string         `json:"downloadLocation"`
	Analyzed  bool           `json:"filesAnalyzed"`
	Checksums []spdxChecksum `json:"checksums,omitempty"`
	Refs      []spdxRef      `json:"externalRefs,omitempty"`
}

type spdxChecksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type spdxRef struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type spdxRelation struct {
	From string `json:"spdxElementId"`
	Type string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

// sbom writes the list of the modules in the binary.
func (r *release) sbom(arch, binary string) error {
	name := fmt.Sprintf("gorxe_%s_linux_%s", r.checkout.version, arch)
	return r.create(name+sbomSuffix, func(w io.Writer) error { return r.writeSBOM(w, name, binary) })
}

const sbomSuffix = ".spdx.json"

// writeDocument is what goreleaser calls in place of syft. It calls it in its output
// directory, so the names are relative to that.
func writeDocument(root, version, binary, document string) error {
	r, err := open(root, "")
	if err != nil {
		return err
	}
	r.checkout.version = version
	f, err := os.Create(r.path(filepath.Join(r.config.Dist, document)))
	if err != nil {
		return err
	}
	return errors.Join(r.writeSBOM(f, strings.TrimSuffix(filepath.Base(document), sbomSuffix), r.path(filepath.Join(r.config.Dist, binary))), f.Close())
}

// writeSBOM lists what the linker recorded, not what go.mod says.
func (r *release) writeSBOM(w io.Writer, name, binary string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(data))
	const main = "SPDXRef-gorxe"
	doc := spdx{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: name,
		Namespace: info.Main.Path + "/sbom/" + name + "/" + sum,
		Creation:  spdxCreation{r.checkout.date.Format(time.RFC3339), []string{"Tool: gorxe-packages"}},
		Packages: []spdxPackage{{ID: main, Name: info.Main.Path, Version: r.checkout.version, Location: "https://" + info.Main.Path,
			Checksums: []spdxChecksum{{"SHA256", sum}}}},
		Relations: []spdxRelation{{"SPDXRef-DOCUMENT", "DESCRIBES", main}},
	}
	add := func(path, version, purl string) {
		id := fmt.Sprintf("SPDXRef-%d", len(doc.Packages))
		doc.Packages = append(doc.Packages, spdxPackage{ID: id, Name: path, Version: version, Location: "NOASSERTION",
			Refs: []spdxRef{{"PACKAGE-MANAGER", "purl", purl}}})
		doc.Relations = append(doc.Relations, spdxRelation{main, "DEPENDS_ON", id})
	}
	goVersion := strings.TrimPrefix(info.GoVersion, "go")
	add("stdlib", goVersion, "pkg:golang/stdlib@"+goVersion)
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		add(m.Path, m.Version, "pkg:golang/"+m.Path+"@"+m.Version)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(doc)
}
