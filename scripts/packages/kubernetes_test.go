package main

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// manifests returns the objects of dist/kubernetes.
func manifests(t *testing.T) []runtime.Object {
	t.Helper()
	return manifest(t, "installer", "runtimeclass", "example")
}

func manifest(t *testing.T, names ...string) (list []runtime.Object) {
	t.Helper()
	for _, name := range names {
		text, err := os.ReadFile("../../dist/kubernetes/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, objects(t, text)...)
	}
	return list
}

// objects returns those of a text, which have the API's types. An unknown or doubled member is an
// error.
func objects(t *testing.T, text []byte) (list []runtime.Object) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{appsv1.AddToScheme, batchv1.AddToScheme, corev1.AddToScheme, nodev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	for documents := yaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(text))); ; {
		buffer := make([]byte, len(text)+1)
		n, err := documents.Read(buffer)
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		object, _, err := decoder.Decode(buffer[:n], nil, nil)
		if err != nil {
			t.Fatalf("%v in:\n%s", err, buffer[:n])
		}
		list = append(list, object)
	}
}

// one returns the only object of a type.
func one[T runtime.Object](t *testing.T, list []runtime.Object) (found T) {
	t.Helper()
	n := 0
	for _, o := range list {
		if o, ok := o.(T); ok {
			found = o
			n++
		}
	}
	if n != 1 {
		t.Fatalf("%d objects are a %T", n, found)
	}
	return found
}

// TestKubernetes: the manifests have the API's types, and the names in them agree.
func TestKubernetes(t *testing.T) {
	all := manifests(t)
	class, job, service := one[*nodev1.RuntimeClass](t, all), one[*batchv1.Job](t, all), one[*corev1.Service](t, all)
	set, script := one[*appsv1.DaemonSet](t, all), one[*corev1.ConfigMap](t, all)
	if name := job.Spec.Template.Spec.RuntimeClassName; name == nil || *name != class.Name {
		t.Errorf("the job has runtime class %v", name)
	}
	if job.Spec.Template.Spec.Subdomain != service.Name || service.Spec.Selector["job-name"] != job.Name || service.Spec.ClusterIP != corev1.ClusterIPNone {
		t.Errorf("service %+v has no names for the pods", service.Spec)
	}
	if rank := job.Spec.Template.Spec.Containers[0].Command[2]; !strings.Contains(rank, " "+job.Name+"-0."+service.Name+";") {
		t.Errorf("rank 1 connects to another name:\n%s", rank)
	}
	if volume := set.Spec.Template.Spec.Volumes[0]; volume.ConfigMap.Name != script.Name || set.Namespace != script.Namespace {
		t.Errorf("the set mounts %v", volume)
	}
	if installed := set.Spec.Template.Spec.NodeSelector; !maps.Equal(class.Scheduling.NodeSelector, installed) {
		t.Errorf("pods run on nodes with %v, and gorxe is on those with %v", class.Scheduling.NodeSelector, installed)
	}
	if level := one[*corev1.Namespace](t, all).Labels["pod-security.kubernetes.io/enforce"]; level != "privileged" {
		t.Errorf("a cluster that enforces pod security refuses the installer: %q", level)
	}
	for name, value := range set.Spec.Selector.MatchLabels {
		if set.Spec.Template.Labels[name] != value {
			t.Errorf("no pod has label %s", name)
		}
	}
}

// TestKubernetesNRI: the plugin's manifest has the API's types. The engine finds gorxe where the
// plugin says, on the nodes of the installer.
func TestKubernetesNRI(t *testing.T) {
	list, installer := manifest(t, "nri"), manifest(t, "installer")
	set := one[*appsv1.DaemonSet](t, list)
	pod := set.Spec.Template.Spec
	if !reflect.DeepEqual(one[*corev1.Namespace](t, list), one[*corev1.Namespace](t, installer)) || set.Namespace != one[*corev1.Namespace](t, list).Name {
		t.Errorf("namespace %s is not that of the installer", set.Namespace)
	}
	if !maps.Equal(pod.NodeSelector, one[*appsv1.DaemonSet](t, installer).Spec.Template.Spec.NodeSelector) || !maps.Equal(set.Spec.Selector.MatchLabels, set.Spec.Template.Labels) {
		t.Errorf("it runs on %v, with labels %v", pod.NodeSelector, set.Spec.Template.Labels)
	}
	volumes := make(map[string]string)
	for _, v := range pod.Volumes {
		volumes[v.Name] = v.HostPath.Path
	}
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		for _, m := range c.VolumeMounts {
			if m.Name == "binary" && volumes[m.Name] != m.MountPath {
				t.Errorf("the host has %s at %s", m.MountPath, volumes[m.Name])
			}
		}
	}
	plugin := pod.Containers[0].Command
	if at := slices.Index(plugin, "--binary"); at < 0 || !strings.HasSuffix(pod.InitContainers[0].Command[2], " "+plugin[at+1]) || filepath.Dir(plugin[at+1]) != volumes["binary"] {
		t.Errorf("%q does not start what %q copies", plugin, pod.InitContainers[0].Command)
	}
}

// TestKustomize builds an overlay that names dist/kubernetes and another image.
func TestKustomize(t *testing.T) {
	files := filesys.MakeFsInMemory()
	for _, name := range []string{"installer", "runtimeclass", "kustomization", "remove"} {
		text, err := os.ReadFile("../../dist/kubernetes/" + name + ".yaml")
		if err == nil {
			err = errors.Join(files.WriteFile("/kubernetes/"+name+".yaml", text), files.WriteFile("/removed/"+name+".yaml", text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for directory, more := range map[string]string{
		"overlay": "images: [{name: gorxe, newName: registry.example/gorxe, newTag: '1.2'}]",
		"removed": "patches: [{path: remove.yaml, target: {kind: DaemonSet, name: gorxe-installer}}]",
	} {
		if err := files.WriteFile("/"+directory+"/kustomization.yaml", []byte("resources: [../kubernetes]\n"+more+"\n")); err != nil {
			t.Fatal(err)
		}
	}
	built := func(directory string) []runtime.Object {
		t.Helper()
		built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, directory)
		if err != nil {
			t.Fatal(err)
		}
		text, err := built.AsYaml()
		if err != nil {
			t.Fatal(err)
		}
		return objects(t, text)
	}
	if command := one[*appsv1.DaemonSet](t, built("/removed")).Spec.Template.Spec.InitContainers[0].Command; !slices.Equal(command, []string{"sh", "/installer/install.sh", "remove"}) {
		t.Errorf("to remove, the installer runs %q", command)
	}
	list := built("/overlay")
	pod := one[*appsv1.DaemonSet](t, list).Spec.Template.Spec
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		if c.Image != "registry.example/gorxe:1.2" {
			t.Errorf("%s has the image %s", c.Name, c.Image)
		}
	}
	one[*nodev1.RuntimeClass](t, list)
	one[*corev1.Namespace](t, list)
	// The end of a document cuts the last newline of what stands there.
	script := func(list []runtime.Object) string {
		return strings.TrimSpace(one[*corev1.ConfigMap](t, list).Data["install.sh"])
	}
	if is := script(list); is == "" || is != script(manifests(t)) {
		t.Errorf("the script became:\n%s", is)
	}
}

// install runs the script of the DaemonSet on the files of a node, with a gorxe of the test as that
// of the image. The restarted services are in the file restarted.
func install(t *testing.T, node, binary string, arguments ...string) (string, error) {
	t.Helper()
	script := one[*corev1.ConfigMap](t, manifests(t)).Data["install.sh"]
	restart := filepath.Join(t.TempDir(), "restart")
	if err := os.WriteFile(restart, []byte(`echo "$@" >"$HOST/restarted"`), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("unshare", "--mount", "sh", "-ec", `mount --bind /usr/bin /usr/bin; mount -t overlay overlay -o "lowerdir=$0:/usr/bin" /usr/bin; script=$1; shift; eval "$script"`, filepath.Dir(binary), script)
	cmd.Args = append(cmd.Args, arguments...)
	cmd.Env = append(os.Environ(), "HOST="+node, "RESTART=sh "+restart)
	said, err := cmd.CombinedOutput()
	return string(said), err
}

// nodes are the files of nodes, and what the script makes of them.
var nodes = map[string]struct {
	config, text string // what containerd reads
	changed      string // the file with the runtime
	has, hasNot  []string
	restarted    string
}{
	"Debian's containerd": {
		"etc/containerd/config.toml", "version = 2\n", "etc/containerd/config.toml",
		[]string{`[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.gorxe]`, `[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]`},
		[]string{"SystemdCgroup"}, "containerd",
	},
	"kubeadm's, with systemd": {
		"etc/containerd/config.toml", "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc]\n  runtime_type = \"io.containerd.runc.v2\"\n" +
			"  [plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc.options]\n    SystemdCgroup = true\n", "etc/containerd/config.toml",
		[]string{`[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.gorxe]`, "BinaryName = \"/opt/gorxe/bin/gorxe-runtime\"\n    SystemdCgroup = true\n"}, nil, "containerd",
	},
	"containerd 2": {
		"etc/containerd/config.toml", "version = 3\n", "etc/containerd/config.toml",
		[]string{`[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.gorxe]`}, []string{"grpc.v1"}, "containerd",
	},
	"k3s": {
		"var/lib/rancher/k3s/agent/etc/containerd/config.toml", "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.\"runc\"]\n",
		"var/lib/rancher/k3s/agent/etc/containerd/config.toml.tmpl",
		[]string{"{{ template \"base\" . }}\n", `[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.gorxe]`}, []string{"runtimes.runc]"}, "k3s k3s-agent",
	},
	"RKE2 with containerd 2": {
		"var/lib/rancher/rke2/agent/etc/containerd/config.toml", "version = 3\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.'runc']\n",
		"var/lib/rancher/rke2/agent/etc/containerd/config-v3.toml.tmpl",
		[]string{"{{ template \"base\" . }}\n", `[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.gorxe]`}, []string{"runtimes.runc]"}, "rke2-server rke2-agent",
	},
}

// removed: what the script has installed goes again, and once, and not under containers that need
// it.
func removed(t *testing.T, node, binary, config, text, restarted string) {
	t.Helper()
	socket := filepath.Join(node, "run/gorxe-containers-4-1.sock")
	if err := errors.Join(os.Mkdir(filepath.Dir(socket), 0o755), os.WriteFile(socket, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if said, err := install(t, node, binary, "remove"); err == nil || !strings.Contains(said, "end their pods first") {
		t.Errorf("with containers: %v\n%s", err, said)
	}
	if err := os.RemoveAll(filepath.Dir(socket)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{restarted, ""} {
		if said, err := install(t, node, binary, "remove"); err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
		names, _ := os.ReadFile(filepath.Join(node, "restarted"))
		if strings.TrimSpace(string(names)) != want {
			t.Errorf("restarted: %s, want %s", names, want)
		}
		os.Remove(filepath.Join(node, "restarted")) //nolint:errcheck // the second time there is none
		var left []string
		err := filepath.WalkDir(node, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				left = append(left, strings.TrimPrefix(path, node+"/"))
			}
			return err
		})
		if now, readErr := os.ReadFile(filepath.Join(node, config)); err != nil || readErr != nil || string(now) != text || !slices.Equal(left, []string{config}) {
			t.Errorf("%v is left, and %s is, after %v:\n%s", left, config, errors.Join(err, readErr), now)
		}
	}
}

// TestKubernetesInstaller runs the script of the DaemonSet twice on the files of nodes. Debian's
// containerd reads what it made.
func TestKubernetesInstaller(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("needs root, to put gorxe into /usr/bin of a mount namespace")
	}
	binary := buildRuntime(t)
	if err := os.Rename(binary, filepath.Join(filepath.Dir(binary), "gorxe")); err != nil {
		t.Fatal(err)
	}
	if said, err := install(t, t.TempDir(), binary); err == nil || !strings.Contains(said, "does not exist") {
		t.Errorf("a node without containerd: %v\n%s", err, said)
	}
	for name, c := range nodes {
		t.Run(name, func(t *testing.T) {
			node := t.TempDir()
			config, restarted := filepath.Join(node, c.config), filepath.Join(node, "restarted")
			if err := errors.Join(os.MkdirAll(filepath.Dir(config), 0o755), os.WriteFile(config, []byte(c.text), 0o644)); err != nil {
				t.Fatal(err)
			}
			if said, err := install(t, node, binary); err != nil {
				t.Fatalf("%v\n%s", err, said)
			}
			once, err := os.ReadFile(filepath.Join(node, c.changed))
			has := func(s string) bool { return strings.Contains(string(once), s) }
			if err != nil || slices.ContainsFunc(c.has, func(s string) bool { return !has(s) }) || slices.ContainsFunc(c.hasNot, has) {
				t.Errorf("%v\n%s", err, once)
			}
			if names, err := os.ReadFile(restarted); err != nil || strings.TrimSpace(string(names)) != c.restarted {
				t.Errorf("restarted: %s (%v)", names, err)
			}
			if err := os.Remove(restarted); err != nil {
				t.Fatal(err)
			}
			if said, err := install(t, node, binary); err != nil {
				t.Fatalf("%v\n%s", err, said)
			}
			if twice, err := os.ReadFile(filepath.Join(node, c.changed)); err != nil || !slices.Equal(once, twice) {
				t.Errorf("a second run changes the file (%v):\n%s", err, twice)
			}
			if _, err := os.Stat(restarted); err == nil {
				t.Error("a second run restarts containerd")
			}
			if out, err := exec.Command(filepath.Join(node, "opt/gorxe/bin/gorxe"), "version").CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			defer removed(t, node, binary, c.config, c.text, c.restarted)
			// Debian's containerd is older than version 3
			if strings.HasPrefix(c.text, "version = 2") && c.changed == c.config {
				dump, err := exec.Command("containerd", "--config", config, "config", "dump").CombinedOutput()
				if err != nil || !strings.Contains(string(dump), `BinaryName = "/opt/gorxe/bin/gorxe-runtime"`) {
					t.Errorf("%v\n%s", err, dump)
				}
			}
		})
	}
}
