package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// file is one of the node's files.
func (c *cluster) file(path string) string {
	return filepath.Join("/proc", strconv.Itoa(c.pid), "root", path)
}

// installed waits for the installer, and looks at what it has done.
func (c *cluster) installed() {
	c.t.Helper()
	c.ok("--namespace", "gorxe", "rollout", "status", "daemonset/gorxe-installer", "--timeout=4m")
	config := called[[]byte](c.t)(os.ReadFile(c.file("etc/containerd/config.toml")))
	if !strings.Contains(string(config), `BinaryName = "/opt/gorxe/bin/gorxe-runtime"`) {
		c.t.Errorf("containerd reads\n%s", config)
	}
	if restarts := string(called[[]byte](c.t)(os.ReadFile(c.file("run/restarts")))); restarts != "try-restart containerd\n" {
		c.t.Errorf("restarts:\n%s", restarts)
	}
}

// metrics are those of a pod, as Prometheus gets them of the installer.
func (c *cluster) metrics(pod string) {
	c.t.Helper()
	name := c.ok("--namespace", "gorxe", "get", "pods", "--selector", "app.kubernetes.io/name=gorxe-installer", "--output", "jsonpath={.items[0].metadata.name}")
	text := c.ok("get", "--raw", "/api/v1/namespaces/gorxe/pods/"+name+":9879/proxy/metrics")
	if want := `gorxe_container_info{container="c",namespace="default",pod="` + pod + `"} 1`; !strings.Contains(text, want) {
		c.t.Errorf("gorxe metrics does not serve %s:\n%s", want, text)
	}
}

// sockets are those of the node's daemons.
func (c *cluster) sockets() []string {
	c.t.Helper()
	return called[[]string](c.t)(filepath.Glob(c.file("run/gorxe-*")))
}

// evicted drains the node. Nothing of its pods is left, and they start again.
func (c *cluster) evicted() {
	c.t.Helper()
	c.ok("rollout", "status", "deployment/evicted", "--timeout=4m")
	c.ok("drain", "node", "--ignore-daemonsets", "--force", "--timeout=4m")
	c.eventually("no daemon is left", func() bool { return len(c.sockets()) == 0 })
	c.ok("uncordon", "node")
	c.ok("rollout", "status", "deployment/evicted", "--timeout=4m")
	c.exec("deployment/evicted", "ibv_devices | grep rxe0")
	c.t.Log("an eviction: the node is drained, no daemon is left, and a pod starts again")
}

// upgraded runs the installer again. Pods that run keep their devices, containerd does not restart.
func (c *cluster) upgraded() {
	c.t.Helper()
	was := called[os.FileInfo](c.t)(os.Stat(c.file("opt/gorxe/bin/gorxe")))
	c.ok("--namespace", "gorxe", "rollout", "restart", "daemonset/gorxe-installer")
	c.installed()
	if is := called[os.FileInfo](c.t)(os.Stat(c.file("opt/gorxe/bin/gorxe"))); os.SameFile(was, is) {
		c.t.Error("the installer has replaced nothing")
	}
	c.exec("deployment/evicted", "ibv_devices | grep rxe0")
	c.ok("scale", "deployment/evicted", "--replicas=2")
	c.ok("rollout", "status", "deployment/evicted", "--timeout=4m")
	c.t.Log("an upgrade of the installer: a pod keeps its device, and another one starts")
}

// removed takes everything back, by the commands in remove.yaml.
func (c *cluster) removed(dist string) {
	c.t.Helper()
	c.ok("delete", "deployment", "evicted")
	c.ok("delete", "jobs,pods", "--all")
	c.eventually("no daemon is left", func() bool { return len(c.sockets()) == 0 })
	c.ok("--namespace", "gorxe", "patch", "daemonset", "gorxe-installer", "--type", "json", "--patch-file", dist+"/remove.yaml")
	c.ok("--namespace", "gorxe", "rollout", "status", "daemonset", "gorxe-installer", "--timeout=4m")
	c.ok("delete", "--kustomize", dist)
	config := called[[]byte](c.t)(os.ReadFile(c.file("etc/containerd/config.toml")))
	if strings.Contains(string(config), "gorxe-runtime") {
		c.t.Errorf("the installer has left\n%s", config)
	}
	if _, err := os.Stat(c.file("opt/gorxe/bin")); !os.IsNotExist(err) {
		c.t.Errorf("/opt/gorxe/bin: %v", err)
	}
	if text := c.ok("get", "namespaces,runtimeclasses"); strings.Contains(text, "gorxe") {
		c.t.Errorf("left:\n%s", text)
	}
	c.t.Log("the removal of the installer: nothing of it is left")
}
