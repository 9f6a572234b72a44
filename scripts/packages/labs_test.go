package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	nodev1 "k8s.io/api/node/v1"
	kind "sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
)

// TestKind: the configuration for kind has the members of its type, containerd reads what it adds,
// and the names in it agree.
func TestKind(t *testing.T) {
	text, err := os.ReadFile("../../examples/labs/kind.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var c kind.Cluster
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&c); err != nil {
		t.Fatal(err)
	}
	if c.Kind != "Cluster" || c.APIVersion != "kind.x-k8s.io/v1alpha4" || len(c.Nodes) != 3 || len(c.ContainerdConfigPatches) != 1 {
		t.Fatalf("%+v", c)
	}
	file := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(file, []byte("version = 2\n"+c.ContainerdConfigPatches[0]), 0o600); err != nil {
		t.Fatal(err)
	}
	dump, err := exec.Command("containerd", "--config", file, "config", "dump").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, dump)
	}
	class := one[*nodev1.RuntimeClass](t, manifests(t))
	_, added, _ := strings.Cut(string(dump), ".containerd.runtimes."+class.Handler+"]")
	for _, n := range c.Nodes {
		if n.Role != kind.WorkerRole {
			continue
		}
		if n.Labels["gorxe"] != class.Scheduling.NodeSelector["gorxe"] {
			t.Errorf("a worker has the labels %v, and pods want %v", n.Labels, class.Scheduling.NodeSelector)
		}
		if len(n.ExtraMounts) != 1 || !strings.Contains(added, `BinaryName = "`+n.ExtraMounts[0].ContainerPath+`"`) {
			t.Errorf("the mount %v is not the runtime in:\n%s", n.ExtraMounts, added)
		}
	}
}

// labImage writes an image for docker import and podman import: a Debian and gorxe.
func labImage(t *testing.T, root string) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, for containers")
	}
	image, gorxe := filepath.Join(t.TempDir(), "image.tar"), buildRuntime(t)
	for _, argv := range [][]string{
		{"cp", root, image},
		{"tar", "--append", "--file", image, "--transform", "s,gorxe-runtime,usr/bin/gorxe,", "--directory", filepath.Dir(gorxe), "gorxe-runtime"},
	} {
		if text, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", argv, err, text)
		}
	}
	return image
}

// lab runs a script in a directory of examples/labs, in a network of its own. Both engines keep
// their files in a directory of the test.
func lab(t *testing.T, in, script string, args ...string) string {
	t.Helper()
	podmanTurn.Lock()
	defer podmanTurn.Unlock()
	dir := t.TempDir()
	argv := append([]string{"--mount", "--net", "--propagation", "private", "bash", "testdata/lab.sh", dir, filepath.Join("../../examples/labs", in), script}, args...)
	said, err := exec.Command("unshare", argv...).CombinedOutput()
	t.Logf("%s", said)
	if err != nil {
		t.Errorf("%v", err)
	}
	nothingLeft(t, dir)
	return string(said)
}

// bandwidths returns how many results of ib_write_bw are in what programs said.
func bandwidths(said string) (n int) {
	for line := range strings.Lines(said) {
		if strings.Contains(line, " 65536      5000 ") {
			n++
		}
	}
	return n
}

// TestLabCompose: four containers of podman-compose, and of docker-compose. The server's three
// programs and those of the clients each print a bandwidth.
func TestLabCompose(t *testing.T) {
	if err := makeRoot(); err != nil {
		t.Fatal(err)
	}
	image := labImage(t, "../../bin/root-bookworm.tar")
	for _, engine := range []string{"podman", "docker"} {
		t.Run(engine, func(t *testing.T) {
			said := lab(t, ".", `$engine import --change 'ENTRYPOINT ["gorxe"]' "$0" gorxe; timeout 300 $engine-compose up`, engine, image)
			if n := bandwidths(said); n != 6 {
				t.Errorf("%d bandwidths", n)
			}
		})
	}
}

// TestLabSlurm: a job of Slurm on two nodes.
func TestLabSlurm(t *testing.T) {
	image := labImage(t, "../../bin/root-slurm.tar")
	for _, engine := range []string{"podman", "docker"} {
		t.Run(engine, func(t *testing.T) {
			said := lab(t, "slurm", `$engine import "$0" gorxe-slurm; timeout 300 $engine-compose up -d
until $engine-compose exec -T controller sinfo --noheader | grep 2.*idle; do sleep 0.2; done
timeout 300 $engine-compose exec -T controller srun --nodes=2 --label gorxe run /lab/bandwidth.sh`, engine, image)
			if !strings.Contains(said, "\n0: ") || !strings.Contains(said, "\n1: ") || bandwidths(said) != 2 {
				t.Error("both tasks have to print the bandwidth")
			}
		})
	}
}

// TestLabContainerlab: gorxe lab runs the topology of containerlab's file.
func TestLabContainerlab(t *testing.T) {
	gorxe := filepath.Join(t.TempDir(), "gorxe")
	if err := os.Rename(buildRuntime(t), gorxe); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(gorxe, "lab", "rails.clab.yml", "--", "./all-to-all.sh")
	cmd.Dir = "../../examples/labs"
	said, err := cmd.CombinedOutput()
	if n := strings.Count(string(said), ": exchanged messages with 7 hosts on 8 rails\n"); err != nil || n != 8 {
		t.Errorf("%v\n%s", err, said)
	}
}
