package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// action is what the test reads of action.yml.
type action struct {
	Inputs map[string]struct{ Default string }
	Runs   struct {
		Steps []struct {
			Name, ID, If, Run, Uses string
			WorkingDirectory        string `yaml:"working-directory"`
			Env, With               map[string]string
		}
	}
}

// job runs the steps of the action in a Debian of its own, as a runner does.
type job struct {
	t      *testing.T
	action action
	root   string            // the Debian
	dir    string            // of the checkout in it
	net    string            // the network namespace
	env    map[string]string // what steps have set for later ones
	failed bool
	log    bytes.Buffer
	// Of the last use of the action:
	outputs map[string]string // of the step with an id
	upload  string            // the path that it uploads
}

const (
	inRoot     = "/action" // the checkout of the action
	tempInRoot = "/runner"
)

// newJob makes a Debian without gorxe, and beside it a release that `gh release download`
// finds.
func newJob(t *testing.T) *job {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, to enter a Debian")
	}
	j := enterJob(t, t.TempDir(), "/repo")
	unpackRoot(t, j.root)
	j.mkdir(tempInRoot, "/repo")
	copyTo(t, j.root+inRoot, "../../action.yml", "../../dist")
	copyTo(t, j.root+"/release", packages(t).dir+"/.")
	readYAML(t, "../../action.yml", &j.action)
	j.write(unsafeIO, "force-unsafe-io\n", 0o644)
	j.write("/usr/bin/gh", "#!/bin/sh -e\n# gh release download [TAG] --repo R --dir DIR ...: from /release\n"+
		"echo \"gh $*\" >>/gh.log\nwhile [ \"$1\" != --dir ]; do shift; done\ncp /release/*.deb /release/SHA256SUMS \"$2\"\n", 0o755)
	return j
}

// enterJob begins a job in a Debian, with a network namespace that lasts for all steps.
func enterJob(t *testing.T, root, dir string) *job {
	t.Helper()
	j := &job{t: t, root: root, dir: dir, env: map[string]string{"PATH": "/bin:/usr/bin:/usr/sbin:/sbin", "HOME": "/root", "LC_ALL": "C.UTF-8"}}
	holder := exec.Command("unshare", "--net", "--kill-child", "--fork", "sh", "-ec", "ip link set lo up; echo ready; exec sleep infinity")
	out, err := holder.StdoutPipe()
	if err == nil {
		err = holder.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		holder.Process.Kill() //nolint:errcheck // Wait says how it ended
		holder.Wait()         //nolint:errcheck // it was killed
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("network namespace: %q, %v", line, err)
	}
	j.net = fmt.Sprintf("/proc/%d/ns/net", holder.Process.Pid)
	return j
}

func (j *job) mkdir(dirs ...string) {
	for _, d := range dirs {
		if err := os.MkdirAll(j.root+d, 0o755); err != nil {
			j.t.Fatal(err)
		}
	}
}

func (j *job) write(name, text string, mode os.FileMode) {
	j.t.Helper()
	if err := os.WriteFile(j.root+name, []byte(text), mode); err != nil {
		j.t.Fatal(err)
	}
}

func (j *job) read(name string) string {
	text, err := os.ReadFile(j.root + name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		j.t.Error(err)
	}
	return string(text)
}

// use is one step of a workflow: `uses: gorxe/gorxe@v1` with inputs. It returns the summary.
func (j *job) use(inputs map[string]string) string {
	j.t.Helper()
	for name := range inputs {
		if _, ok := j.action.Inputs[name]; !ok {
			j.t.Fatalf("the action has no input %s", name)
		}
	}
	j.failed, j.upload, j.outputs = false, "", make(map[string]string)
	j.log.Reset()
	for _, file := range []string{"/summary", "/output", "/env"} {
		j.write(file, "", 0o644)
	}
	for _, step := range j.action.Runs.Steps {
		if !j.holds(step.If, inputs) {
			continue
		}
		if step.Uses != "" {
			j.upload = j.expand(step.With["path"], inputs)
			continue
		}
		env := maps.Clone(j.env)
		for name, value := range step.Env {
			env[name] = j.expand(value, inputs)
		}
		maps.Copy(env, map[string]string{"GITHUB_ACTION_PATH": inRoot, "RUNNER_TEMP": tempInRoot,
			"GITHUB_STEP_SUMMARY": "/summary", "GITHUB_OUTPUT": "/output", "GITHUB_ENV": "/env"})
		fmt.Fprintf(&j.log, "$ %s\n", step.Name)
		if !j.run(j.dir, step.Run, env) {
			j.failed = true
		}
		for line := range strings.Lines(j.read("/env")) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			j.env[name] = value
		}
		for line := range strings.Lines(j.read("/output")) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			j.outputs[name] = value
		}
	}
	return j.read("/summary")
}

// run runs bash as the runner does: `shell: bash`.
func (j *job) run(dir, script string, env map[string]string) bool {
	j.write("/step.sh", script, 0o644)
	words := []string{"sh", "-ec", `mount -t proc proc "$0/proc"; mount -t sysfs sys "$0/sys"; mount --bind /dev "$0/dev"
root=$0; cd "$0$1"; shift; exec chroot "$root" env -i "$@"`, j.root, dir}
	for name, value := range env {
		words = append(words, name+"="+value)
	}
	words = append(words, "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", `cd "$1"; source /step.sh`, "bash", dir)
	cmd := exec.Command("nsenter", append([]string{"--net=" + j.net, "unshare", "--mount", "--"}, words...)...)
	cmd.Stdout, cmd.Stderr = &j.log, &j.log
	return cmd.Run() == nil
}

var expression = regexp.MustCompile(`\$\{\{ *([\w.-]+) *\}\}`)

// expand fills in the expressions that action.yml has.
func (j *job) expand(text string, inputs map[string]string) string {
	return expression.ReplaceAllStringFunc(text, func(e string) string {
		return j.value(expression.FindStringSubmatch(e)[1], inputs)
	})
}

func (j *job) value(name string, inputs map[string]string) string {
	switch {
	case strings.HasPrefix(name, "inputs."):
		name = strings.TrimPrefix(name, "inputs.")
		in, ok := j.action.Inputs[name]
		if !ok {
			j.t.Fatalf("action.yml has no input %s", name)
		}
		if v, ok := inputs[name]; ok {
			return v
		}
		return in.Default
	case name == "github.token":
		return "secret"
	case name == "runner.temp":
		return tempInRoot
	case strings.HasPrefix(name, "steps.report.outputs."):
		return j.outputs[strings.TrimPrefix(name, "steps.report.outputs.")]
	}
	j.t.Fatalf("action.yml uses %s, which this test does not know", name)
	return ""
}

var comparison = regexp.MustCompile(`^([\w.-]+) (==|!=) '([^']*)'$`)

// holds evaluates the condition of a step: && binds stronger than ||, one level of
// parentheses.
func (j *job) holds(cond string, inputs map[string]string) bool {
	if cond == "" {
		return !j.failed
	}
	if !strings.Contains(cond, "always()") && !strings.Contains(cond, "failure()") && j.failed {
		return false
	}
	cond = strings.NewReplacer("always()", "true", "failure()", fmt.Sprint(j.failed)).Replace(cond)
	for {
		group := regexp.MustCompile(`\(([^()]+)\)`).FindStringSubmatchIndex(cond)
		if group == nil {
			return j.any(cond, inputs)
		}
		cond = cond[:group[0]] + fmt.Sprint(j.any(cond[group[2]:group[3]], inputs)) + cond[group[1]:]
	}
}

func (j *job) any(cond string, inputs map[string]string) bool {
	return slices.ContainsFunc(strings.Split(cond, " || "), func(part string) bool {
		return !slices.ContainsFunc(strings.Split(part, " && "), func(term string) bool { return !j.term(term, inputs) })
	})
}

func (j *job) term(term string, inputs map[string]string) bool {
	switch term = strings.TrimSpace(term); term {
	case "true":
		return true
	case "false":
		return false
	}
	m := comparison.FindStringSubmatch(term)
	if m == nil {
		j.t.Fatalf("action.yml has a condition %q, which this test does not know", term)
	}
	return (j.value(m[1], inputs) == m[3]) == (m[2] == "==")
}

const pingPong = `ibv_rc_pingpong -d rxe0 -g 1 -n 50 >/dev/null & server=$!
until grep -q ':4853 0*:0000 0A' /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done
ibv_rc_pingpong -d rxe0 -g 1 -n 50 127.0.0.1
wait $server`

// TestAction runs the steps of action.yml in a Debian without gorxe.
func TestAction(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	check := func(name string, ok bool) {
		t.Helper()
		if !ok {
			t.Errorf("%s\nlog:\n%s\nsummary:\n%s\noutputs %v, upload %q", name, j.log.String(), j.read("/summary"), j.outputs, j.upload)
		}
	}

	good := j.read("/release/SHA256SUMS")
	j.write("/release/SHA256SUMS", fmt.Sprintf("%x  %s\n", sha256.Sum256(nil), filepath.Base(debIn(t, j.root+"/release"))), 0o644)
	j.use(map[string]string{"run": "true"})
	check("a package that is not the release's is installed", j.failed && strings.Contains(j.log.String(), "FAILED") && j.upload == "")
	j.write("/release/SHA256SUMS", good, 0o644)

	summary := j.use(map[string]string{"run": pingPong})
	check("a ping-pong", !j.failed && j.upload == "" && strings.Contains(summary, "obey the protocol") && j.outputs["violations"] == "0" &&
		j.read(j.outputs["capture"]) != "" && strings.Contains(summary, "<details><summary>What the commands did with RDMA</summary>\n\n# Verdict: the program ended well\n"))
	check("the latest release", strings.Contains(j.read("/gh.log"), "gh release download --repo gorxe/gorxe "))

	summary = j.use(map[string]string{"run": "ibv_devices"})
	check("no packets", !j.failed && strings.Contains(summary, "The devices sent no packets.") && j.outputs["violations"] == "0")

	deb := "/release/" + filepath.Base(debIn(t, j.root+"/release"))
	summary = j.use(map[string]string{"package": deb, "devices": "2", "run": "ibv_devices\n" + pingPong + "\nexit 3"})
	check("commands that fail", j.failed && j.upload == tempInRoot+"/gorxe/" && strings.Contains(summary, "obey the protocol") &&
		strings.Contains(j.log.String(), "rxe1") && j.read(tempInRoot+"/gorxe/verdict/verdict.html") != "" &&
		strings.HasPrefix(summary, "# Verdict: the program failed with exit status 3\n\n") &&
		strings.Contains(summary, "\n## Who was at fault\n\n- **The program**, outside of RDMA: ") && !strings.Contains(summary, "<details>"))

	j.use(map[string]string{"package": deb, "devices": "rxe7=127.0.0.7\nrxe8=127.0.0.8", "daemon": "true"})
	check("a daemon", !j.failed && strings.Contains(j.log.String(), "rxe8"))
	later := maps.Clone(j.env)
	check("a later step", j.run("/repo", "gorxe run -- ibv_devices | grep rxe7; gorxe run -- ibv_devinfo -d rxe8", later))
	j.use(map[string]string{"package": deb, "report": "true"})
	check("the report of the daemon", !j.failed && strings.Contains(j.read("/summary"), "rxe7"))
	check("the end of the daemon", j.run("/repo", `kill "$(gorxe status --json | sed -n 's/^ *"pid": \([0-9]*\),/\1/p' | head -n 1)"`, later))

	j.env = map[string]string{"PATH": j.env["PATH"]}
	j.use(map[string]string{"package": deb, "devices": "rxe0=no-such-interface", "run": "true"})
	check("an interface that does not exist", j.failed && strings.Contains(j.log.String(), "no-such-interface"))
	j.use(map[string]string{"package": "/none.deb", "run": "true"})
	check("a package that does not exist", j.failed && strings.Contains(j.log.String(), "::error::there is no package /none.deb"))
}

func debIn(t *testing.T, dir string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%v, %v", found, err)
	}
	return found[0]
}

// TestWorkflows: the examples give the action inputs that it has.
func TestWorkflows(t *testing.T) {
	var a action
	readYAML(t, "../../action.yml", &a)
	files, err := filepath.Glob("../../examples/workflows/*.yml")
	if err != nil || len(files) < 4 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		var workflow struct {
			Jobs map[string]struct {
				Steps []struct {
					Uses string
					With map[string]string
				}
			}
		}
		readYAML(t, file, &workflow)
		uses := 0
		for _, j := range workflow.Jobs {
			for _, step := range j.Steps {
				if !strings.HasPrefix(step.Uses, "gorxe/gorxe@") {
					continue
				}
				uses++
				for name := range step.With {
					if _, ok := a.Inputs[name]; !ok {
						t.Errorf("%s: the action has no input %s", file, name)
					}
				}
			}
		}
		if uses == 0 {
			t.Errorf("%s does not use the action", file)
		}
	}
}

func readYAML(t *testing.T, file string, to any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = yaml.Unmarshal(text, to)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}
