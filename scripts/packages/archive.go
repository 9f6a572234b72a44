package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// create makes a file in the output directory.
func (r *release) create(name string, write func(io.Writer) error) error {
	f, err := os.Create(filepath.Join(r.out, name))
	if err != nil {
		return err
	}
	r.made = append(r.made, name)
	fmt.Fprintln(r.steps, "writing", f.Name())
	return errors.Join(write(f), f.Close())
}

// archive makes the tar file: the binary and the files of the configuration.
func (r *release) archive(arch, binary string) error {
	a := r.config.Archives[0]
	name, err := r.template(a.NameTemplate, arch)
	if err != nil {
		return err
	}
	return r.create(name+".tar.gz", func(w io.Writer) error {
		zipped, err := gzip.NewWriterLevel(w, gzip.BestCompression)
		if err != nil {
			return err
		}
		t := tar.NewWriter(zipped)
		if err := r.addFile(t, binary, filepath.Base(binary), 0o755); err != nil {
			return err
		}
		for _, f := range a.Files {
			found, err := filepath.Glob(filepath.Join(r.root, f.Source))
			if err != nil || len(found) == 0 {
				return fmt.Errorf(".goreleaser.yaml: no file is %s: %w", f.Source, errors.Join(err, os.ErrNotExist))
			}
			for _, source := range found {
				dst := path.Join(f.Destination, filepath.Base(source))
				if f.Destination == "" {
					dst = strings.TrimPrefix(source, r.root+"/")
				}
				if err := r.addFile(t, source, dst, int64(f.Info.Mode)); err != nil {
					return err
				}
			}
		}
		return errors.Join(t.Close(), zipped.Close())
	})
}

// addFile adds a file whose header depends on nothing but the commit.
func (r *release) addFile(t *tar.Writer, source, name string, mode int64) error {
	data, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	err = t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(data)), Mode: mode,
		ModTime: r.checkout.date, Uname: "root", Gname: "root", Format: tar.FormatPAX})
	if err != nil {
		return err
	}
	_, err = t.Write(data)
	return err
}

// checksums writes the SHA-256 sum of every file, as sha256sum -c reads it.
func (r *release) checksums() error {
	var b strings.Builder
	for _, name := range r.made {
		data, err := os.ReadFile(filepath.Join(r.out, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(data), name)
	}
	return r.create(r.config.Checksum.NameTemplate, func(w io.Writer) error {
		_, err := io.WriteString(w, b.String())
		return err
	})
}
