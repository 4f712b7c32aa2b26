package network

import (
	"fmt"
	"regexp"
	"strings"
)

// prefix is the prefix of all names of a lab in the kernel.
const prefix = "m3lab-"

// separator is between the name of a lab and that of a machine. Neither may contain it, so that names are unambiguous.
const separator = "."

var (
	labName     = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,10}[a-z0-9])?$`)
	machineName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
)

// CheckLab returns an error for an invalid name of a lab.
func CheckLab(lab string) error {
	if !labName.MatchString(lab) {
		return fmt.Errorf("the name of the lab is %q: use 1 to 12 lower-case letters, digits and -, "+
			"with a letter or a digit at both ends", lab)
	}
	return nil
}

// CheckMachine returns an error for an invalid name of a machine, which is a DNS label.
func CheckMachine(machine string) error {
	if !machineName.MatchString(machine) {
		return fmt.Errorf("the name of the machine is %q: use 1 to 63 lower-case letters, digits and -, "+
			"with a letter or a digit at both ends", machine)
	}
	return nil
}

// Name returns the name of the namespace of the switch, and of other parts of a lab without a machine.
func Name(lab string) string { return prefix + lab }

// MachineName returns the name of the namespace of a machine.
func MachineName(lab, machine string) string { return Name(lab) + separator + machine }

// Belongs returns true if Name or MachineName returns the name for this lab.
func Belongs(lab, name string) bool {
	return name == Name(lab) || strings.HasPrefix(name, Name(lab)+separator)
}
