package app

import "github.com/spf13/pflag"

// ignoredFlag is a flag of CAPM3 with a number that the manager accepts and ignores, so that it starts with the
// arguments of an existing Deployment.
type ignoredFlag struct {
	name string

	// reason explains why the flag has no effect.
	reason string
}

// ignoredFlags returns all flags of CAPM3 v1.8 to v1.14 that have no effect in this release.
func ignoredFlags() []ignoredFlag {
	return []ignoredFlag{
		{name: "metal3labelsync-concurrency", reason: "the workers of --metal3machine-concurrency copy the labels"},
	}
}

func addIgnored(set *pflag.FlagSet) {
	for _, ignored := range ignoredFlags() {
		set.Int(ignored.name, 0, "Accepted for compatibility with CAPM3 and ignored: "+ignored.reason+".")
	}
}

// Warnings returns a warning for each ignored flag in a parsed set.
func Warnings(set *pflag.FlagSet) []string {
	var warnings []string
	for _, ignored := range ignoredFlags() {
		if set.Changed(ignored.name) {
			warnings = append(warnings, "Ignoring --"+ignored.name+": "+ignored.reason+". Remove the flag.")
		}
	}
	return warnings
}
