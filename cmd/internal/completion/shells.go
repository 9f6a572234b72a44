package completion

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/gorxe/gorxe/internal/sys/terminal"
)

// Command is `gorxe completion`: it prints the code that a shell needs.
type Command struct {
	Shell string `arg:"" help:"bash, zsh or fish. The default is the shell of $$SHELL." enum:"bash,zsh,fish," default:""`
	Code  bool   `short:"c" help:"Print the code that the command of the line runs."`
}

// Help is what kong prints of the command.
func (c *Command) Help() string {
	return `With the name of a shell, it prints the code that activates completion there. So it does if its output goes to a file or a pipe. Without a name, it says how to activate completion in your login shell.

Examples:
  gorxe completion
  source <(gorxe completion bash)`
}

// shell is how a shell gets completion. NAME and PATH are the program's.
type shell struct{ code, command, file string }

var shells = map[string]shell{
	"bash": {"complete -o default -o bashdefault -C PATH NAME", "source <(NAME completion bash)", "~/.bashrc"},
	"zsh": {"autoload -U +X bashcompinit && bashcompinit\ncomplete -o default -o bashdefault -C PATH NAME",
		"source <(NAME completion zsh)", "~/.zshrc"},
	"fish": {`function __complete_NAME
    set -lx COMP_LINE (commandline -cp)
    test -z (commandline -ct)
    and set COMP_LINE "$COMP_LINE "
    PATH
end
complete -f -c NAME -a "(__complete_NAME)"`, "NAME completion fish | source", "~/.config/fish/config.fish"},
}

// Run prints the command, or the code.
func (c *Command) Run(k *kong.Context) error {
	name := c.Shell
	if name == "" {
		name = filepath.Base(os.Getenv("SHELL"))
	}
	s, ok := shells[name]
	if !ok {
		return fmt.Errorf("$SHELL is %q, which has no completion: name bash, zsh or fish", os.Getenv("SHELL"))
	}
	path, err := os.Executable()
	if err != nil {
		return err
	}
	text := s.code
	if !c.Code && c.Shell == "" && terminal.Is(k.Stdout) {
		text = "This command activates completion in " + name + ":\n\n    " + s.command +
			"\n\nTo have it in each shell, put the command into its init file, which usually is " + s.file + "."
	}
	_, err = fmt.Fprintln(k.Stdout, strings.NewReplacer("NAME", k.Model.Name, "PATH", path).Replace(text))
	return err
}
