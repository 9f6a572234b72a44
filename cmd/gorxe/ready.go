package main

import (
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/internal/sys/buildinfo"
)

// sayReady tells that the daemon serves. A user who started it by hand gets one line. A log of
// level info gets one for the daemon, and one for each device. A user who asked for warnings only
// gets none.
func (c daemonCmd) sayReady(std streams, st *proto.Status) {
	if c.LogLevel == "" && !c.Private {
		line := readyLine(st)
		if info, err := os.Stat(st.Socket); err == nil && os.Geteuid() == 0 {
			line += whose(info.Mode())
		}
		fmt.Fprintln(std.err, "gorxe: "+line)
		return
	}
	log := c.logger(std)
	for _, d := range st.Devices {
		for _, p := range d.Ports {
			log.Info("device", "name", d.Name, "interface", p.Interface, "addresses", portAddresses(p),
				"state", p.State, "active_mtu", p.ActiveMTU, "gbps", p.SpeedGbps)
		}
	}
	log.Info("ready", "socket", st.Socket, "capture", c.PCAP, "pid", st.PID, "devices", len(st.Devices), "build", buildinfo.Get())
}

// whose says that root's socket is for root only, if it is.
func whose(socket fs.FileMode) string {
	if socket.Perm()&0o022 != 0 {
		return ""
	}
	return " if root runs them: --socket-group GROUP lets others in"
}

// readyDevices bounds the devices that the line names.
const readyDevices = 8

// readyLine names the devices, their addresses and the socket.
func readyLine(st *proto.Status) string {
	var list []string
	for i, d := range st.Devices {
		if i == readyDevices {
			list = append(list, fmt.Sprintf("%d more", len(st.Devices)-i))
			break
		}
		for _, p := range d.Ports {
			list = append(list, fmt.Sprintf("%s on %s (%s)", d.Name, p.Interface, strings.Join(portAddresses(p), ", ")))
		}
	}
	return fmt.Sprintf("ready: %s; programs find it at %s", strings.Join(list, ", "), printable(st.Socket))
}

// portAddresses are those of a port, each once.
func portAddresses(p proto.PortStatus) (list []string) {
	seen := make(map[string]bool)
	for _, g := range p.GIDs {
		if a := shortAddress(g.GID); !seen[a] {
			seen[a] = true
			list = append(list, a)
		}
	}
	return list
}
