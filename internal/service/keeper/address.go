package keeper

import (
	"os"
	"strconv"
	"strings"

	"github.com/gorxe/gorxe/internal/service/proto"
)

// envAddress is set in the program's environment: the address of its first device.
const envAddress = "GORXE_ADDRESS"

// addressWord stands for that address in the arguments of a program, if Config.FillIn is set.
const addressWord = "{address}"

// FillIn returns arguments with the address for addressWord: for an argument that is this word, and
// behind "=" or before ":". Elsewhere it may be a piece of code.
func FillIn(argv []string, address string) []string {
	if address == "" {
		return argv
	}
	out := make([]string, len(argv))
	for i, arg := range argv {
		value := arg[strings.IndexByte(arg, '=')+1:]
		if rest, ok := strings.CutPrefix(value, addressWord); ok && (rest == "" || rest[0] == ':') {
			arg = strings.TrimSuffix(arg, value) + address + rest
		}
		out[i] = arg
	}
	return out
}

// arguments returns the program's arguments.
func (cfg *Config) arguments(argv []string) []string {
	if !cfg.FillIn {
		return argv
	}
	return FillIn(argv, os.Getenv(envAddress))
}

// tell puts what the program has to know of its daemon into the environment.
func tell(socket string, hello proto.Hello) {
	set := func(name, value string) { _ = os.Setenv(name, value) } // the names are correct
	set(proto.EnvSocket, socket)
	set(envSession, strconv.FormatUint(hello.Session, 10))
	if hello.Address.IsValid() {
		set(envAddress, hello.Address.String())
	} else {
		_ = os.Unsetenv(envAddress) // of an older daemon, or of a run around this one
	}
}

// sayFree tells the user of a device that is not where the command line has it: see
// daemon.Server.startDevice.
func sayFree(cfg Config, hello proto.Hello) {
	for _, have := range hello.Devices {
		if have.Free && !cfg.wantsFree(have.Name) {
			complain("UDP port 4791 of lo is taken, by another gorxe or by the kernel's rdma_rxe: the device %s of this run is on the free loopback address %v, which $%s has",
				have.Name, have.Address, envAddress)
		}
	}
}

// wantsFree reports whether the device shall be on a free address.
func (cfg *Config) wantsFree(name string) bool {
	for _, text := range cfg.Devices {
		if s, err := proto.ParseSpec(text); err == nil && s.Name == name && s.Free {
			return true
		}
	}
	return false
}
