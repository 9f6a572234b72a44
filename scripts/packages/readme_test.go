package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// section returns the code in one language below a heading of the README.
func section(t *testing.T, heading, language string) string {
	t.Helper()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(readme), "\n### "+heading+"\n")
	if !found {
		t.Fatalf("README.md has no heading %q", heading)
	}
	if end := regexp.MustCompile(`(?m)^##`).FindStringIndex(text); end != nil {
		text = text[:end[0]]
	}
	var code strings.Builder
	for _, block := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(text, -1) {
		code.WriteString(block[1])
	}
	if code.Len() == 0 {
		t.Fatalf("README.md has no code below %q", heading)
	}
	return code.String()
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

// follow runs the commands of the README as they stand, and keeps what is said.
func (d *debian) follow(heading, commands string) string {
	d.t.Helper()
	text, code := d.run("cd /gorxe\n" + typed(commands))
	d.t.Logf("%s:\n%s", heading, text)
	if code != 0 {
		d.t.Errorf("%s: exit code %d", heading, code)
	}
	return text
}

const active = "PORT_ACTIVE" // what ibv_devinfo says of a device that works

// TestReadmePackage follows the README with the Debian package, and then its first commands.
func TestReadmePackage(t *testing.T) {
	t.Parallel()
	d := newcomer(t)
	text := d.follow("A Debian package", section(t, "A Debian package", "sh"))
	if !strings.Contains(text, active) {
		t.Error("ibv_devinfo finds no port")
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	first := regexp.MustCompile("(?s)```sh\n(.*?)```").FindStringSubmatch(string(readme))[1]
	d.write("/gorxe/my-tests", "#!/bin/sh\nibv_devices | grep rxe0\n")
	d.ok("chmod 755 /gorxe/my-tests")
	pair := d.follow("the first commands", first)
	if !strings.Contains(pair, "8192000 bytes") {
		t.Error("no ping-pong")
	}
	transcript(t, "package", text+pair)
}

// TestReadmePython follows the README with pip.
func TestReadmePython(t *testing.T) {
	t.Parallel()
	d := newcomer(t)
	text := d.follow("Python", section(t, "Python", "sh"))
	if !strings.Contains(text, active) {
		t.Error("ibv_devinfo finds no port")
	}
	transcript(t, "python", text)
}

// TestReadmeAction runs the step of the README as a runner does, after `make packages`.
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
