package daemon

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/internal/sys/procfs"
	"github.com/gorxe/gorxe/rocev2"
	"github.com/gorxe/gorxe/wire"
)

// portTaken says who has the port, and what helps, in the error of a device that does not start
// because the port is taken.
func portTaken(err error) error {
	var port *rocev2.PortError
	if !errors.Is(err, rocev2.ErrPortTaken) || !errors.As(err, &port) {
		return err
	}
	taken := *port
	taken.Cause = nil // the kind says it
	taken.Hint = remedy(portUsers(netip.AddrPortFrom(port.Addr, wire.UDPPort)))
	return &taken
}

// remedy says what helps against those who have the port.
func remedy(users []portUser) string {
	var names []string
	everywhere := false
	for _, u := range users {
		if !slices.Contains(names, u.String()) {
			names = append(names, u.String())
		}
		everywhere = everywhere || u.everywhere
	}
	if more := len(names) - maxHolders; more > 0 {
		names = append(names[:maxHolders], fmt.Sprintf("%d more", more))
	}
	has := ""
	switch {
	case len(names) == 1:
		has = names[0] + " has it.\n"
	case len(names) > 1:
		has = strings.Join(names, ", ") + " have sockets of this port.\n"
	}
	if everywhere {
		return has + "It is taken at every address, so neither --private nor --device helps. End that program, or run in a\n" +
			"network namespace of your own: gorxe pair --hosts, or unshare -rn sh -c 'ip link set lo up; exec gorxe run PROGRAM'"
	}
	return has + "Take an address of your own: --private, or --device, as rxe0=127.0.0.2.\n" +
		"Or attach to the other gorxe (--socket, $" + proto.EnvSocket + "), where its user lets you"
}

// portUser is a socket of a UDP port.
type portUser struct {
	uid, inode string
	pid        int  // a process that has the socket; 0: none that this process may look at
	everywhere bool // the socket has every address
}

// String names the program, or else the user. The kernel's own sockets are root's.
func (u portUser) String() string {
	name := "user " + u.uid
	if found, err := user.LookupId(u.uid); err == nil {
		name += " (" + strconv.Quote(found.Username) + ")"
	}
	switch {
	case u.pid != 0:
		return fmt.Sprintf("%s[%d] of %s", commandName(u.pid), u.pid, name)
	case u.uid == "0":
		return name + " or the kernel's rdma_rxe (see sudo ss -ulpn, rdma link)"
	}
	return name + " (sudo ss -ulpn names the program)"
}

// mostName is how much is read of a command, of which each process says what it likes.
const mostName = 4096

// commandName is the name by which a process was started. A daemon of gorxe run executes
// /proc/self/exe, so the kernel knows it as exe.
func commandName(pid int) string {
	// one that has ended, or has none
	words, _ := procfs.ReadBegin(procfs.Path(pid, "cmdline"), mostName)
	if name, _, _ := strings.Cut(string(words), "\x00"); name != "" {
		return oneLine(filepath.Base(name))
	}
	return oneLine(processName(pid))
}

// portUsers finds the sockets that keep another one from an address.
func portUsers(at netip.AddrPort) []portUser {
	users := sockets(at)
	if slices.ContainsFunc(users, func(u portUser) bool { return !u.everywhere }) {
		// of IPv6 only
		users = slices.DeleteFunc(users, func(u portUser) bool { return u.everywhere })
	}
	inodes := make(map[string]*portUser)
	for i := range users {
		inodes["socket:["+users[i].inode+"]"] = &users[i]
	}
	if len(users) == 0 {
		return nil
	}
	fds, _ := filepath.Glob("/proc/[0-9]*/fd/*") // the pattern is correct
	for _, fd := range fds {
		target, err := procfs.Readlink(fd)
		if err != nil {
			continue // it was closed, or is another user's
		}
		if u := inodes[target]; u != nil && u.pid == 0 {
			u.pid, _ = strconv.Atoi(strings.Split(fd, "/")[2]) // a number, by the pattern
		}
	}
	return users
}

// sockets returns the UDP sockets of an address, and those of every address, in this network
// namespace.
func sockets(at netip.AddrPort) (users []portUser) {
	for _, table := range []string{"udp", "udp6"} {
		text, err := os.ReadFile("/proc/net/" + table)
		if err != nil {
			continue // the error has none of them then
		}
		for line := range strings.Lines(string(text)) {
			// "sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode"
			f := strings.Fields(line)
			if len(f) < 10 {
				continue
			}
			address, ok := strings.CutSuffix(f[1], fmt.Sprintf(":%04X", at.Port()))
			everywhere := strings.Trim(address, "0") == ""
			if ok && (everywhere || address == inTable(at.Addr())) {
				users = append(users, portUser{uid: f[7], inode: f[9], everywhere: everywhere})
			}
		}
	}
	return users
}

// inTable is an address as /proc/net/udp and udp6 have it: words of 32 bits in the processor's
// order of bytes.
func inTable(a netip.Addr) (text string) {
	for word := range slices.Chunk(a.AsSlice(), 4) {
		text += fmt.Sprintf("%08X", binary.NativeEndian.Uint32(word))
	}
	return text
}
