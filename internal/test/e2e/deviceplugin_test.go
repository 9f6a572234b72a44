package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// devicePlugin is Mellanox/k8s-rdma-shared-dev-plugin, as `make` builds it.
const devicePlugin = "../../../bin/k8s-rdma-shared-dp"

// underKubelet runs a program with the directory of a kubelet.
const underKubelet = `
set -eu
mount -t tmpfs lib /var/lib
mkdir /var/lib/kubelet
mount --bind "$1" /var/lib/kubelet
shift
exec "$@"
`

const pluginConfig = `{"periodicUpdateInterval": 0, "configList": [
	{"resourceName": "hca", "rdmaHcaMax": 3, "selectors": {"vendors": ["15b3"], "linkTypes": ["ether"]}}]}`

// pluginNames are the few lines of pci.ids that the plugin needs.
const pluginNames = "15b3  Mellanox Technologies\n\t101b  MT28908 Family [ConnectX-6]\nC 02  Network controller\n\t00  Ethernet controller\n"

// TestDevicePlugin: the plugin finds the device, advertises it to a kubelet, and gives a pod the
// device's files. In the exclusive mode of namespaces it refuses to start.
func TestDevicePlugin(t *testing.T) {
	if !selection.takes(complete) || oneUser {
		return
	}
	plugin, err := filepath.Abs(devicePlugin)
	if err != nil {
		t.Fatal(err)
	}
	need(t, plugin, "unshare", "rdma")
	dir, err := os.MkdirTemp(scratch, "kubelet-")
	if err != nil {
		t.Fatal(err)
	}
	sockets := filepath.Join(dir, "device-plugins")
	for _, err := range []error{os.Mkdir(sockets, 0o755), os.WriteFile(dir+"/config.json", []byte(pluginConfig), 0o644),
		os.WriteFile(dir+"/pci.ids", []byte(pluginNames), 0o644)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	k := serveKubelet(t, filepath.Join(sockets, "kubelet.sock"))
	h, _ := twoHosts(t, 1500)
	d := startDaemon(t, h, "--device", "mlx5_0=eth0")
	run := func() *proc {
		return start(t, h, append(d.env(), "PCIDB_PATH="+dir+"/pci.ids"), "unshare", "-m", "sh", "-c", underKubelet, "sh", dir,
			gorxe, "run", "--", plugin, "-config-file", "/var/lib/kubelet/config.json")
	}
	p := run()
	ctx, cancel := context.WithTimeout(context.Background(), programLimit)
	defer cancel()
	var request []field
	select {
	case request = <-k.registered:
	case <-time.After(programLimit):
		t.Fatalf("it does not register\n%s", p.describe())
	}
	endpoint, resource := of(request, 2), of(request, 3)
	if len(endpoint) != 1 || len(resource) != 1 || string(resource[0]) != "rdma/hca" {
		t.Fatalf("it registers %v", request)
	}
	socket := filepath.Join(sockets, string(endpoint[0]))
	list, err := callPlugin(ctx, socket, "ListAndWatch", nil)
	if health := of(list, 1, 2); err != nil || len(health) != 3 || string(health[0]) != "Healthy" {
		t.Errorf("it lists %v, %v", list, err)
	}
	// AllocateRequest: one container, with the device "0"
	answer, err := callPlugin(ctx, socket, "Allocate", []byte{1<<3 | 2, 3, 1<<3 | 2, 1, '0'})
	var files []string
	for _, path := range of(answer, 1, 3, 1) { // container_responses, devices, container_path
		files = append(files, string(path))
	}
	slices.Sort(files)
	if want := []string{"/dev/infiniband/rdma_cm", "/dev/infiniband/umad0", "/dev/infiniband/uverbs0"}; err != nil || !slices.Equal(files, want) {
		t.Errorf("a pod gets %q, want %q: %v\n%s", files, want, err, p.describe())
	}
	p.killProgram("k8s-rdma-shared")

	d.run(t, "rdma", "system", "set", "netns", "exclusive").ok()
	if p := run(); p.wait() == 0 || !strings.Contains(p.out.String(), "incorrect RDMA subsystem network namespace") {
		t.Errorf("in the exclusive mode: %s", p.describe())
	}
}

// nodeSees is what the node's software of Kubernetes finds.
type nodeSees struct {
	PCI  map[string]string // Node Feature Discovery, source/pci
	Net  []string          // sriov-device-plugin: the interfaces
	RDMA []string          // rdmamap: the RDMA devices
	Via  []string          // the same, by the interface
	Numa string
	Errs []string
}

// playNode reads what Node Feature Discovery and sriov-device-plugin read of one device of the PCI
// bus.
func playNode(args []string) int {
	const bus = "/sys/bus/pci/devices"
	address, netdev := args[0], args[1]
	l := nodeSees{PCI: make(map[string]string)}
	failed := func(err error) bool {
		if err != nil {
			l.Errs = append(l.Errs, err.Error())
		}
		return err != nil
	}
	names := func(dir string) (list []string) {
		entries, err := os.ReadDir(dir)
		failed(err)
		for _, e := range entries {
			list = append(list, e.Name())
		}
		return list
	}
	if !slices.Contains(names(bus), address) {
		l.Errs = append(l.Errs, "the bus does not list it")
	}
	dir := filepath.Join(bus, address)
	for _, name := range []string{"class", "vendor", "device", "subsystem_vendor", "subsystem_device"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		failed(err)
		l.PCI[name] = strings.TrimSpace(string(b))
	}
	for _, name := range []string{"sriov_totalvfs", "physfn", "iommu_group/type"} {
		if _, err := os.Stat(filepath.Join(dir, name)); !os.IsNotExist(err) {
			l.Errs = append(l.Errs, fmt.Sprintf("%s: %v", name, err))
		}
	}
	if _, err := os.ReadFile("/sys/class/net/" + netdev + "/device/sriov_totalvfs"); !os.IsNotExist(err) {
		l.Errs = append(l.Errs, fmt.Sprintf("device/sriov_totalvfs: %v", err))
	}
	driver, err := os.Readlink(filepath.Join(dir, "driver"))
	failed(err)
	l.PCI["driver"] = filepath.Base(driver)
	parent, err := os.Readlink("/sys/class/net/" + netdev + "/device")
	failed(err)
	l.PCI["parent"] = parent
	l.Net, l.RDMA, l.Via = names(dir+"/net"), names(dir+"/infiniband"), names("/sys/class/net/"+netdev+"/device/infiniband")
	for _, pattern := range []string{"/net/*/operstate", "/virtfn*"} {
		_, err := filepath.Glob(dir + pattern)
		failed(err)
	}
	numa, err := os.ReadFile(filepath.Join(dir, "numa_node"))
	failed(err)
	l.Numa = strings.TrimSpace(string(numa))
	failed(json.NewEncoder(os.Stdout).Encode(l))
	return 0
}

// TestNodeSoftware: what the node's software of Kubernetes looks at is there.
func TestNodeSoftware(t *testing.T) {
	if !selection.takes(standard) || native != "" {
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h, _ := twoHosts(t, 1500)
	d := startDaemon(t, h, "--device", "mlx5_0=eth0")
	address := filepath.Base(strings.TrimSpace(d.run(t, "readlink", "-f", "/sys/class/infiniband/mlx5_0/device").ok()))
	out := d.run(t, "env", roleEnv+"=node", self, address, "eth0").ok()
	var l nodeSees
	if err := json.Unmarshal([]byte(out), &l); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if len(l.Errs) != 0 || l.PCI["vendor"] != "0x15b3" || l.PCI["class"] != "0x020000" || l.PCI["subsystem_vendor"] != "0x15b3" ||
		l.PCI["driver"] != "mlx5_core" || l.PCI["parent"] != "../../../"+address || l.Numa == "" ||
		!slices.Equal(l.Net, []string{"eth0"}) || !slices.Equal(l.RDMA, []string{"mlx5_0"}) || !slices.Equal(l.Via, l.RDMA) {
		t.Errorf("they find %+v", l)
	}
}
