package manual

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// usualExit is what the page of a command says whose help says nothing of its exit code.
const usualExit = "The exit code is 0 if the command succeeded, 1 if it did not, 2 if the command line is wrong."

// fact is a variable or a file, of the commands that have one of the flags or that have one of the
// names.
type fact struct {
	name, text string
	flags      []string
	commands   []string
}

func (f *fact) of(n *kong.Node) bool {
	return slices.Contains(f.commands, n.Name) || slices.ContainsFunc(n.Flags, func(flag *kong.Flag) bool {
		return !flag.Hidden && slices.Contains(f.flags, flag.Name)
	})
}

var variables = []fact{
	{"GORXE_SOCKET", "The socket of the daemon, if --socket is missing.", []string{"socket"}, nil},
	{"XDG_RUNTIME_DIR", "The directory of the socket of an ordinary user's daemon.", []string{"socket"}, nil},
	{"GORXE_FAULTS", "Fault rules in addition to those of --fault, with semicolons between them.", []string{"faults-may-miss"}, nil},
	{"GORXE_CHAOS", "The seed, if --chaos is missing.", []string{"chaos"}, nil},
	{"SHELL", "The program, if none is named.", nil, []string{"run"}},
	{"GORXE_SESSION", "Is set for programs under gorxe run.", nil, []string{"run"}},
	{"GOMAXPROCS", "How many processors the daemon uses at once. By default it decides itself.", nil, []string{"daemon"}},
	{"NOTIFY_SOCKET, LISTEN_FDS, LISTEN_PID", "Are of systemd: whom to tell that the daemon is ready, and a socket that systemd has opened.", nil, []string{"daemon"}},
	{"COLUMNS", "The width of tables, if they are not printed to a terminal. The default is 80.", nil, []string{"status", "top", "devices", "doctor", "explain"}},
	{"NO_COLOR, CLICOLOR_FORCE", "If the first is set, the output has no colors. If the second is set and not 0, colors are not only for terminals.", nil, []string{"show", "check", "status", "doctor", "top"}},
}

var paths = []fact{
	{"/run/gorxe.sock", "The socket of root's daemon, where also other users' programs look.", []string{"socket"}, nil},
	{"$XDG_RUNTIME_DIR/gorxe.sock, /tmp/gorxe-UID/gorxe.sock", "The socket of an ordinary user's daemon. The second is for users without a runtime directory.", []string{"socket"}, nil},
	{"/dev/infiniband, /sys/class/infiniband, /sys/class/infiniband_verbs", "Are what programs under gorxe run find of the devices. These files are not on the disk.", nil, []string{"run", "devices"}},
}

// facts is the text of a section; empty: there is none.
func facts(list []fact, n *kong.Node) string {
	var b strings.Builder
	for i := range list {
		if f := &list[i]; f.of(n) {
			b.WriteString(f.name + ": " + f.text + "\n\n")
		}
	}
	return strings.TrimSpace(b.String())
}
