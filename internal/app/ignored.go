package app

import "github.com/spf13/pflag"

// ignoredFlag is a flag of CAPM3 that the manager accepts and ignores, so that the arguments of an existing Deployment
// still start the manager.
type ignoredFlag struct {
	name string

	// isSwitch says that the flag is true or false. Other flags are numbers.
	isSwitch bool

	// reason says why the flag has no effect.
	reason string
}

// ignoredFlags are all flags of CAPM3 v1.8 to v1.14 that this release does not serve.
func ignoredFlags() []ignoredFlag {
	return []ignoredFlag{
		{name: "metal3labelsync-concurrency", reason: "the workers of --metal3machine-concurrency copy the labels"},
	}
}

// addIgnored registers the ignored flags in a set.
func addIgnored(set *pflag.FlagSet) {
	for _, ignored := range ignoredFlags() {
		usage := "Accepted for compatibility with CAPM3 and ignored: " + ignored.reason + "."
		if ignored.isSwitch {
			set.Bool(ignored.name, false, usage)
		} else {
			set.Int(ignored.name, 0, usage)
		}
	}
}

// Warnings returns one sentence for each flag in a parsed set that has no effect.
func Warnings(set *pflag.FlagSet) []string {
	var warnings []string
	for _, ignored := range ignoredFlags() {
		if set.Changed(ignored.name) {
			warnings = append(warnings, "Ignoring --"+ignored.name+": "+ignored.reason+". Remove the flag.")
		}
	}
	return warnings
}
