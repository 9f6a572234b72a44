package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/goreleaser/goreleaser/v2/pkg/config"
	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/apk" // the formats register themselves
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// pack makes one package.
func (r *release) pack(arch, format, binary string) error {
	c := r.config.NFPMs[0]
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	contents, err := r.contents(c.Contents, arch)
	if err != nil {
		return err
	}
	contents = append(contents, &files.Content{Source: binary, Destination: filepath.Join(c.Bindir, filepath.Base(binary)),
		FileInfo: &files.ContentFileInfo{Mode: 0o755, MTime: r.checkout.date}})
	special := c.Overrides[format]
	scripts, err := r.scripts(cmp.Or(special.Scripts.PostInstall, c.Scripts.PostInstall),
		cmp.Or(special.Scripts.PreRemove, c.Scripts.PreRemove), cmp.Or(special.Scripts.PostRemove, c.Scripts.PostRemove))
	if err != nil {
		return err
	}
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: c.PackageName, Arch: arch, Platform: "linux", Version: r.checkout.version,
		Section: c.Section, Priority: "optional", Maintainer: c.Maintainer, Description: c.Description,
		Homepage: c.Homepage, License: c.License, MTime: r.checkout.date,
		Overridables: nfpm.Overridables{
			Depends:  slices.Concat(c.Dependencies, special.Dependencies),
			Suggests: either(special.Suggests, c.Suggests),
			Contents: contents,
			Umask:    c.Umask,
			Scripts:  nfpm.Scripts{PostInstall: scripts[0], PreRemove: scripts[1], PostRemove: scripts[2]},
			RPM:      nfpm.RPM{BuildHost: c.RPM.BuildHost},
		},
	})
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	return r.create(packager.ConventionalFileName(info), func(w io.Writer) error {
		return packager.Package(info, w)
	})
}

// contents are the files of the configuration, with their templates executed.
func (r *release) contents(all []config.NFPMContent, arch string) (list files.Contents, err error) {
	for _, c := range all {
		stamp, err := r.template(c.FileInfo.MTime, arch)
		if err != nil {
			return nil, err
		}
		date, err := time.Parse(time.RFC3339, stamp)
		if err != nil {
			return nil, fmt.Errorf(".goreleaser.yaml: mtime of %s: %w", c.Source, err)
		}
		to, err := r.template(c.Destination, arch)
		if err != nil {
			return nil, err
		}
		source := r.path(c.Source)
		switch c.Type {
		case files.TypeSymlink:
			source = c.Source // what the link says
		case files.TypeDir:
			source = ""
		}
		list = append(list, &files.Content{Source: source, Destination: to, Type: c.Type, Packager: c.Packager,
			FileInfo: &files.ContentFileInfo{Owner: c.FileInfo.Owner, Group: c.FileInfo.Group, Mode: c.FileInfo.Mode, MTime: date}})
	}
	return list, nil
}

func (r *release) path(name string) string { return filepath.Join(r.root, name) }

// scripts copies scripts to files that are as old as the commit: nfpm writes the age of
// these into an apk.
func (r *release) scripts(names ...string) (copies []string, err error) {
	for _, name := range names {
		if name == "" {
			copies = append(copies, "")
			continue
		}
		text, err := os.ReadFile(r.path(name))
		if err != nil {
			return nil, err
		}
		file := filepath.Join(r.work, filepath.Base(name))
		if err := errors.Join(os.WriteFile(file, text, 0o755), os.Chtimes(file, r.checkout.date, r.checkout.date)); err != nil {
			return nil, err
		}
		copies = append(copies, file)
	}
	return copies, nil
}

func either(special, common []string) []string {
	if len(special) > 0 {
		return special
	}
	return common
}
