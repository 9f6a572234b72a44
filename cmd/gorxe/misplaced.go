package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/internal/service/proto"
)

// taking is a flag with the words that it took as its values.
type taking struct {
	flag, value string // as in the help: "--pcap", "FILE"
	took        []string
}

func (f *deviceFlags) taking() []taking {
	return []taking{{"--device", "NAME=WHERE", f.Device}, {"--pcap", "FILE", []string{f.PCAP}}}
}

func (f *verdictFlags) taking() []taking {
	return []taking{{"--verdict", "DIR", []string{f.Verdict}}, {"--verdict-on-failure", "DIR", []string{f.VerdictOnFailure}}}
}

func (f *trialFlags) taking() []taking {
	return []taking{{"--fault", "RULE", f.Fault}, {"--faults", "FILE", f.Faults}, {"--fault-report", "FILE", []string{f.FaultReport}}}
}

// taken says which program a flag took as its value, as in gorxe run --pcap ls -l.
func taken(flags ...[]taking) string {
	for _, f := range slices.Concat(flags...) {
		for _, value := range f.took {
			if !strings.ContainsAny(value, "/.") && isProgram(value) {
				return fmt.Sprintf("%s took %s as its value: give it one, as in %[1]s %[3]s -- %[2]s", f.flag, value, f.value)
			}
		}
	}
	return ""
}

// misplaced returns the error of a command line on which the program is missing or begins with a
// dash; nil: it is well. taken is what a flag took.
func misplaced(command string, program []string, taken string) error {
	switch {
	case len(program) == 0 && taken != "":
		return usageError{errors.New("no program is given: " + taken)}
	case len(program) == 0 || !strings.HasPrefix(program[0], "-") || program[0] == "--":
		return nil
	}
	says := fmt.Sprintf("unknown flag %s: see gorxe %s --help; ", program[0], command)
	own := program
	if end := slices.Index(program, "--"); end > 0 {
		own = program[:end]
	}
	at := slices.IndexFunc(own, isProgram)
	switch {
	case taken != "":
		says += taken
	case program[0] == "-d":
		says += "did you mean --device?"
	case at > 0:
		says += "the flags of " + program[at] + " go after its name"
	default:
		says += "a program of that name goes after --"
	}
	return usageError{errors.New(says)}
}

// unquoted says that the shell has split a fault rule, as in --fault packet drop,p=1% PROGRAM.
func unquoted(rules, program []string) error {
	if len(rules) == 0 || len(program) == 0 {
		return nil
	}
	rule := rules[len(rules)-1]
	whole := rule + " " + program[0]
	if _, err := fault.Parse(rule); err == nil {
		return nil
	}
	if _, err := fault.Parse(whole); err != nil {
		return nil
	}
	return usageError{fmt.Errorf("the rule after --fault has a space, so it needs quotes: --fault '%s'", whole)}
}

// ownFlag is a flag of gorxe among the arguments of a program, with its value or without.
var ownFlag = regexp.MustCompile(`^--(chaos|devices?|doorbells|ecn|explain(-to)?|faults?|fault-report|faults-may-miss|hosts|label|like|log-level|pcap|private|rails|ready-when|sanitize(-abort|-exit|-suppress|-to)?|segment|socket|speed|stop-server|verdict(-on-failure)?)(=|$)`)

// late says that a well-known program has got a flag of gorxe, which none of them has.
func late(program []string) string {
	if len(program) == 0 || !slices.Contains(wellKnown(), program[0]) {
		return ""
	}
	at := slices.IndexFunc(program, ownFlag.MatchString)
	if at < 0 {
		return ""
	}
	flag, _, _ := strings.Cut(program[at], "=")
	return fmt.Sprintf("%s got %s as an argument: flags of gorxe go directly after gorxe run or gorxe pair", program[0], flag)
}

// deviceWord is a name of gorxe's devices among the arguments of a program, and kernelDevice what
// ibv_rc_pingpong and its like, and perftest, take as a device's name.
var (
	deviceWord   = regexp.MustCompile(`^(?:-d|--ib-dev=)?((?:rxe|mlx5_)[0-9]+)$`)
	kernelDevice = regexp.MustCompile(`^(?:\S*/)?ibv?_\w+(?: \S+)*? (?:-d ?|--ib-dev[= ])(\w+)(?: |$)`)
)

// absent says that an argument of a program names a device that the program does not have.
func absent(program, devices []string) string {
	if len(devices) == 0 {
		return ""
	}
	here := strings.Join(devices, ", ")
	for _, word := range program {
		m := deviceWord.FindStringSubmatch(word)
		if m != nil && !slices.Contains(devices, m[1]) {
			other := "or --devices N"
			if strings.HasPrefix(m[1], "mlx5_") {
				other = fmt.Sprintf("or --like %s --devices N", proto.DefaultLike)
			}
			return fmt.Sprintf("the devices here are %s; for %s: gorxe run --device %[2]s=INTERFACE, %[3]s", here, m[1], other)
		}
	}
	if m := kernelDevice.FindStringSubmatch(strings.Join(program, " ")); m != nil && !slices.Contains(devices, m[1]) {
		return fmt.Sprintf("the devices here are %s, and not %s", here, m[1])
	}
	return ""
}
