package explain

const exitKind = "exit code of gorxe"

// exitWords are the exit codes of gorxe run that are not the program's.
var exitWords = []Word{
	{Name: "usage", Number: 2, Meaning: "The command line of gorxe is wrong, unless the program itself ended with 2.", Fix: "Read the line that begins with gorxe:, and gorxe run --help."},
	{Name: "rule never fired", Number: 3, Meaning: "A fault rule never fired, unless the program itself ended with 3.", Fix: "Compare the rule with the program's traffic, or use --faults-may-miss."},
	{Name: "misuse", Number: 4, Meaning: "gorxe run --sanitize found an error, unless the program itself ended with 4.", Fix: "Read the lines that begin with ==. Each says how to switch its check off."},
	{Name: "not started", Number: 125, Meaning: "gorxe failed, and did not start the program.", Fix: "Read the line that begins with gorxe:, and see gorxe doctor."},
	{Name: "not executable", Number: 126, Meaning: "The program is there, and cannot be executed.", Fix: "See whether it is a program of this machine, with the right to execute it."},
	{Name: "not found", Number: 127, Meaning: "There is no such program.", Fix: "Check its name and PATH."},
}
