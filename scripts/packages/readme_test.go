package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const installPage = "../../docs/install.md"

// code returns the blocks of code in one language in a text.
func code(text, language string) []string {
	var blocks []string
	for _, block := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(text, -1) {
		blocks = append(blocks, block[1])
	}
	return blocks
}

// page reads a document.
func page(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// section returns the code in one language below a heading of docs/install.md.
func section(t *testing.T, heading, language string) string {
	t.Helper()
	_, text, found := strings.Cut(page(t, installPage), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("%s has no heading %q", installPage, heading)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	found = len(code(text, language)) > 0
	if !found {
		t.Fatalf("%s has no code below %q", installPage, heading)
	}
	return strings.Join(code(text, language), "")
}

// newcomer is a Debian without a network, with a checkout in which `make packages` was run.
func newcomer(t *testing.T) *debian {
	t.Helper()
	d := newDebian(t)
	m := packages(t)
	d.copy("/gorxe/bin/packages", m.dir+"/.")
	d.copy("/gorxe", filepath.Join(m.checkout, "dist"), filepath.Join(m.checkout, "action.yml"))
	return d
}

// follow runs the commands of a document as they stand, and keeps what is said.
func (d *debian) follow(heading, commands string) string {
	d.t.Helper()
	text, code := d.run("mkdir -p /gorxe\ncd /gorxe\n" + typed(commands))
	d.t.Logf("%s:\n%s", heading, text)
	if code != 0 {
		d.t.Errorf("%s: exit code %d", heading, code)
	}
	return text
}

const active = "PORT_ACTIVE" // what ibv_devinfo says of a device that works

// TestReadmeCheckout pastes the first shell block of the README in a Debian that has what the
// README asks for: git, make and Go. Modules come from this machine's cache, and packages from
// bin/debs.
func TestReadmeCheckout(t *testing.T) {
	t.Parallel()
	d := newDebian(t)
	var where struct{ GOROOT, GOMODCACHE, GOCACHE string }
	text, err := exec.Command("go", "env", "-json", "GOROOT", "GOMODCACHE", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &where); err != nil {
		t.Fatal(err)
	}
	checkout, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	shared, err := exec.Command("git", "rev-parse", "--path-format=absolute", "--git-common-dir").Output()
	if err != nil {
		t.Fatal(err)
	}
	d.binds = []string{where.GOROOT, where.GOMODCACHE, where.GOCACHE, checkout, strings.TrimSpace(string(shared))}
	d.env[0] = "PATH=" + where.GOROOT + "/bin:" + strings.TrimPrefix(d.env[0], "PATH=")
	d.env = append(d.env, "GOPROXY=off", "GOTOOLCHAIN=local", "GOFLAGS=-mod=mod -buildvcs=false", "GOMODCACHE="+where.GOMODCACHE, "GOCACHE="+where.GOCACHE)
	d.ok("apt-get install -y -q --no-install-recommends git make && git config --system safe.directory '*' && git config --system url.file://" + checkout + ".insteadOf https://github.com/gorxe/gorxe")
	said := d.follow("the first block", code(page(t, "../../README.md"), "sh")[0])
	for _, want := range []string{"8192000 bytes", active, "installed /usr/local/bin/gorxe", "The verified packets are in"} {
		if !strings.Contains(said, want) {
			t.Errorf("nothing says %q", want)
		}
	}
	if bad := regexp.MustCompile(`(?mi)^(E:|W:|.*\berror\b|.*\bfatal\b).*`).FindAllString(said, -1); bad != nil {
		t.Errorf("lines that look like errors: %q", bad)
	}
}

// TestReadmePackage follows the page with the Debian package.
func TestReadmePackage(t *testing.T) {
	t.Parallel()
	d := newcomer(t)
	text := d.follow("A Debian package", section(t, "A Debian package", "sh"))
	if !strings.Contains(text, active) {
		t.Error("ibv_devinfo finds no port")
	}
	transcript(t, "package", text)
}

// TestReadmePython follows the page with pip.
func TestReadmePython(t *testing.T) {
	t.Parallel()
	d := newcomer(t)
	text := d.follow("Python", section(t, "Python", "sh"))
	if !strings.Contains(text, active) {
		t.Error("ibv_devinfo finds no port")
	}
	transcript(t, "python", text)
}

// TestReadmeAction runs the step of the page as a runner does, after `make packages`.
func TestReadmeAction(t *testing.T) {
	t.Parallel()
	d := newcomer(t)
	d.ok("apt-get install -y -q --no-install-recommends make gcc libc6-dev; apt-get clean")
	d.copy("/debs", "../../bin/debs/.") // the job below does not mount it
	var steps []struct {
		Uses string
		With map[string]string
	}
	if err := yaml.Unmarshal([]byte(section(t, "A job of GitHub Actions", "yaml")), &steps); err != nil || len(steps) != 1 || steps[0].Uses != "gorxe/gorxe@v1" {
		t.Fatalf("%v, %v", steps, err)
	}
	j := enterJob(t, d.root, "/gorxe")
	j.mkdir(inRoot, tempInRoot)
	copyTo(t, d.root+inRoot, "../../action.yml", "../../dist")
	readYAML(t, "../../action.yml", &j.action)
	program := `#include <infiniband/verbs.h>
int main(void) { int n; ibv_get_device_list(&n); return n != 1; }
`
	d.write("/gorxe/check.c", program)
	d.write("/gorxe/Makefile", "check:\n\tgcc check.c -o check -libverbs\n\t./check\n\tibv_devinfo\n")
	summary := j.use(steps[0].With)
	t.Logf("%s\n%s", j.log.String(), summary)
	if j.failed || !strings.Contains(j.log.String(), active) {
		t.Error("the step fails")
	}
	transcript(t, "action", j.log.String()+"$ cat \"$GITHUB_STEP_SUMMARY\"\n"+summary)
}
