package network

import (
	"fmt"
	"regexp"
	"strings"
)

// prefix begins the name of everything in the kernel that belongs to a lab.
const prefix = "m3lab-"

// separator stands between the name of a lab and that of a machine. Neither may contain it, so that the machine b-c of
// the lab a is not taken for the machine c of the lab a-b.
const separator = "."

var (
	labName     = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,10}[a-z0-9])?$`)
	machineName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
)

// CheckLab says what is wrong with the name of a lab.
func CheckLab(lab string) error {
	if !labName.MatchString(lab) {
		return fmt.Errorf("the name of the lab is %q: use 1 to 12 lower-case letters, digits and -, "+
			"with a letter or a digit at both ends", lab)
	}
	return nil
}

// CheckMachine says what is wrong with the name of a machine, which is a DNS label.
func CheckMachine(machine string) error {
	if !machineName.MatchString(machine) {
		return fmt.Errorf("the name of the machine is %q: use 1 to 63 lower-case letters, digits and -, "+
			"with a letter or a digit at both ends", machine)
	}
	return nil
}

// Name is the name of the switch's namespace, and of everything else of a lab that belongs to no machine.
func Name(lab string) string { return prefix + lab }

// MachineName is the name of a machine's namespace.
func MachineName(lab, machine string) string { return Name(lab) + separator + machine }

// Belongs tells whether a name was made by Name or MachineName for this lab.
func Belongs(lab, name string) bool {
	return name == Name(lab) || strings.HasPrefix(name, Name(lab)+separator)
}
