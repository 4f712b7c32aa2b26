package main

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/app"
)

// longUsage is the length from which a usage is cut after its first sentence. Lists of ciphers would fill pages, and
// they change with the version of Go.
const longUsage = 250

// flagTable lists the flags of the manager, by name, without hidden and deprecated ones.
func flagTable() string {
	set := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	// Without the environment, so that the table is the same everywhere.
	app.NewFlags(func(string) string { return "" }).Add(set)
	var rows [][]string
	set.VisitAll(func(flag *pflag.Flag) {
		if flag.Hidden || flag.Deprecated != "" {
			return
		}
		initial := flag.DefValue
		if initial != "" {
			initial = "`" + initial + "`"
		}
		rows = append(rows, []string{"`--" + flag.Name + "`", initial, usageOf(flag)})
	})
	return table([]string{"Flag", "Default", "Meaning"}, rows)
}

func usageOf(flag *pflag.Flag) string {
	usage := strings.Join(strings.Fields(flag.Usage), " ")
	if first, _, more := strings.Cut(usage, ". "); more && len(usage) > longUsage {
		return first + "."
	}
	return usage
}
