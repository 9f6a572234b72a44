package main

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"text/template"
	"time"
)

// checkout is what git says of the sources.
type checkout struct {
	version string // without v
	commit  string
	date    time.Time // of the commit
}

// fields are those of goreleaser's templates that this project uses.
type fields struct {
	Version, FullCommit, CommitDate, Os, Arch string
	CommitTimestamp                           int64
}

var described = regexp.MustCompile(`^v(\d+\.\d+\.\d+)(-[0-9A-Za-z.]+)?-(\d+)-g([0-9a-f]+)(-dirty)?$`)

// readCheckout names the version by the last tag. A commit without a tag of its own is
// a prerelease of what follows, such as 1.2.4-dev.7+g0123abc.
func readCheckout(root string) (c checkout, err error) {
	git := func(args ...string) (string, error) {
		out, err := exec.Command("git", append([]string{"-C", root}, args...)...).Output()
		if err != nil {
			return "", fmt.Errorf("git %s: %w: packages are made from a checkout", strings.Join(args, " "), err)
		}
		return strings.TrimSpace(string(out)), nil
	}
	text, err := git("log", "-1", "--format=%H %ct")
	if err != nil {
		return c, err
	}
	var seconds int64
	if _, err := fmt.Sscan(text, &c.commit, &seconds); err != nil {
		return c, fmt.Errorf("git log says %q: %w", text, err)
	}
	c.date = time.Unix(seconds, 0).UTC()
	tag, err := git("describe", "--tags", "--long", "--dirty", "--match", "v[0-9]*")
	if err != nil { // no tag yet
		count, err := git("rev-list", "--count", "HEAD")
		if err != nil {
			return c, err
		}
		status, err := git("status", "--porcelain", "--untracked-files=no")
		if err != nil {
			return c, err
		}
		tag = fmt.Sprintf("v0.0.0-%s-g%s", count, c.commit[:12])
		if status != "" {
			tag += "-dirty"
		}
	}
	c.version, err = versionOf(tag)
	return c, err
}

// versionOf makes a semantic version of what git describe says.
func versionOf(tag string) (string, error) {
	m := described.FindStringSubmatch(tag)
	if m == nil {
		return "", fmt.Errorf("git describe says %q: tags are like v1.2.3", tag)
	}
	version, pre, commits, commit, dirty := m[1], m[2], m[3], m[4], m[5]
	if commits == "0" && dirty == "" {
		return version + pre, nil
	}
	if pre == "" {
		var major, minor, patch int
		if _, err := fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch); err != nil {
			return "", err
		}
		if version != "0.0.0" {
			patch++
		}
		version, pre = fmt.Sprintf("%d.%d.%d", major, minor, patch), "-dev"
	}
	return version + pre + "." + commits + "+g" + commit + strings.ReplaceAll(dirty, "-", "."), nil
}

// template executes a template of .goreleaser.yaml.
func (r *release) template(text, arch string) (string, error) {
	t, err := template.New("").Option("missingkey=error").Parse(text)
	if err != nil {
		return "", fmt.Errorf(".goreleaser.yaml: %w", err)
	}
	var b strings.Builder
	c := r.checkout
	err = t.Execute(&b, fields{Version: c.version, FullCommit: c.commit, CommitDate: c.date.Format(time.RFC3339),
		CommitTimestamp: c.date.Unix(), Os: "linux", Arch: arch})
	if err != nil {
		return "", fmt.Errorf(".goreleaser.yaml: %w", err)
	}
	return b.String(), nil
}
