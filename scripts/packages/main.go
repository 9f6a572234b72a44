package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/goreleaser/go-shellwords"
	"github.com/goreleaser/goreleaser/v2/pkg/config"
)

func main() {
	root := flag.String("root", "../..", "the checkout")
	out := flag.String("out", "../../bin/packages", "directory for the packages")
	arch := flag.String("arch", "", "only this architecture")
	sbom := flag.String("sbom", "", "only write the SBOM of this binary of goreleaser, to -document")
	document := flag.String("document", "", "file for the SBOM, in goreleaser's output directory")
	version := flag.String("version", "", "version that the SBOM names")
	flag.Parse()
	if *sbom != "" {
		if err := writeDocument(*root, *version, *sbom, *document); err != nil {
			fmt.Fprintf(os.Stderr, "packages: %v\n", err)
			os.Exit(1)
		}
		return
	}
	if _, err := makeAll(*root, *out, *arch, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "packages: %v\n", err)
		os.Exit(1)
	}
}

// release is one release of the checkout.
type release struct {
	root, out string // absolute
	work      string // for files that are not kept
	checkout  checkout
	config    config.Project
	made      []string // files in out, of which the checksums are
	steps     io.Writer
}

// open reads the configuration and what git says of the checkout.
func open(root, out string) (r *release, err error) {
	r = &release{}
	if r.root, err = filepath.Abs(root); err != nil {
		return nil, err
	}
	if r.out, err = filepath.Abs(out); err != nil {
		return nil, err
	}
	if r.config, err = config.Load(filepath.Join(r.root, ".goreleaser.yaml")); err != nil {
		return nil, fmt.Errorf(".goreleaser.yaml: %w", err)
	}
	if len(r.config.Builds) != 1 || len(r.config.Archives) != 1 || len(r.config.NFPMs) != 1 {
		return nil, fmt.Errorf(".goreleaser.yaml has %d builds, %d archives and %d nfpms: this program knows one of each",
			len(r.config.Builds), len(r.config.Archives), len(r.config.NFPMs))
	}
	if r.checkout, err = readCheckout(r.root); err != nil {
		return nil, err
	}
	return r, nil
}

// makeAll makes everything, and returns the names of the files. It writes each step, because some
// take a minute.
func makeAll(root, out, onlyArch string, steps io.Writer) ([]string, error) {
	r, err := open(root, out)
	if err != nil {
		return nil, err
	}
	r.steps = steps
	if err := os.RemoveAll(r.out); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return nil, err
	}
	// Pages of commands that no longer exist must not be packed.
	if err := os.RemoveAll(filepath.Join(r.root, "bin/man")); err != nil {
		return nil, err
	}
	fmt.Fprintln(r.steps, "compiling gorxe for this machine, and writing its manual pages")
	for _, hook := range r.config.Before.Hooks {
		if err := r.hook(hook); err != nil {
			return nil, err
		}
	}
	for _, arch := range r.config.Builds[0].Goarch {
		if onlyArch != "" && arch != onlyArch {
			continue
		}
		if err := r.forArch(arch); err != nil {
			return nil, fmt.Errorf("%s: %w", arch, err)
		}
	}
	if err := r.checksums(); err != nil {
		return nil, err
	}
	return r.made, nil
}

func (r *release) forArch(arch string) error {
	var err error
	if r.work, err = os.MkdirTemp("", "gorxe-packages-"); err != nil {
		return err
	}
	defer os.RemoveAll(r.work)
	fmt.Fprintf(r.steps, "compiling gorxe for %s\n", arch)
	binary, err := r.build(arch)
	if err != nil {
		return err
	}
	if err := r.archive(arch, binary); err != nil {
		return err
	}
	if err := r.sbom(arch, binary); err != nil {
		return err
	}
	if err := r.wheel(arch, binary); err != nil {
		return err
	}
	for _, format := range r.config.NFPMs[0].Formats {
		if err := r.pack(arch, format, binary); err != nil {
			return fmt.Errorf("%s: %w", format, err)
		}
	}
	return nil
}

// hook runs one of before.hooks.
func (r *release) hook(line string) error {
	line, err := r.template(line, "")
	if err != nil {
		return err
	}
	words, err := shellwords.Parse(line) // as goreleaser does
	if err != nil {
		return fmt.Errorf(".goreleaser.yaml: %q: %w", line, err)
	}
	return r.command(words, "")
}

// command runs a program in the checkout.
func (r *release) command(words []string, arch string) error {
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir = r.root
	cmd.Env = append(os.Environ(), r.config.Builds[0].Env...)
	cmd.Env = append(cmd.Env, "GOWORK=off")
	if arch != "" {
		cmd.Env = append(cmd.Env, "GOOS=linux", "GOARCH="+arch)
	}
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(words, " "), err, text)
	}
	return nil
}

// build compiles the program.
func (r *release) build(arch string) (string, error) {
	b := r.config.Builds[0]
	binary := filepath.Join(r.work, b.Binary)
	flags, err := r.buildFlags(arch)
	if err != nil {
		return "", err
	}
	words := append(append([]string{"go", "build"}, flags...), "-o", binary, b.Main)
	return binary, r.command(words, arch)
}

func (r *release) buildFlags(arch string) ([]string, error) {
	b := r.config.Builds[0]
	ldflags, err := r.template(strings.Join(b.Ldflags, " "), arch)
	return append(b.Flags, "-ldflags="+ldflags), err
}
