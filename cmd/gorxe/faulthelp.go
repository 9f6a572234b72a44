package main

// Help is the part of `gorxe fault add --help` above the flags.
func (faultAddCmd) Help() string {
	return `All rules are added, or none. The program may be chosen by its label, a process or its session; the only one need not be.

Examples:
  gorxe fault add 'packet drop,p=1%,seed=7'
  gorxe fault add --label server 'packet delay,time=2ms'
  gorxe fault add --pid 4711 --faults rules.yaml`
}

// Help is the part of `gorxe fault list --help` above the flags.
func (faultListCmd) Help() string {
	return `Examples:
  gorxe fault list
  gorxe fault list --label server --json`
}

// Help is the part of `gorxe fault remove --help` above the flags.
func (faultRemoveCmd) Help() string {
	return `The exit code is 3 if a rule that is removed never fired.

Examples:
  gorxe fault remove 2
  gorxe fault remove --session 1 --faults-may-miss 2 3`
}

// Help is the part of `gorxe fault clear --help` above the flags.
func (faultClearCmd) Help() string {
	return `The exit code is 3 if a rule that is removed never fired.

Examples:
  gorxe fault clear
  gorxe fault clear --faults-may-miss`
}
