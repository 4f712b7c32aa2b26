package main

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks/rule"
)

// namedField is a field of spec.ironic with dots, in the alternative to an option.
var namedField = regexp.MustCompile(`\b[a-z]\w*(?:\.\w+)+`)

// optionTable returns the options of ironic.conf that extraConfig must not contain.
func optionTable() string {
	owned := rule.OwnedOptions()
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(owned)) {
		group, option, single := strings.Cut(name, "/")
		if group == "default" {
			group = "DEFAULT"
		}
		cell := "all"
		if single {
			cell = "`" + option + "`"
		}
		rows = append(rows, []string{"`" + group + "`", cell, withFields(owned[name])})
	}
	return table([]string{"Group", "Option", "Instead"}, rows)
}

// withFields quotes the fields in a text: names with dots, and the only word after set.
func withFields(text string) string {
	if name, is := strings.CutPrefix(text, "set "); is && !strings.Contains(name, " ") {
		return "set `" + name + "`"
	}
	return namedField.ReplaceAllString(text, "`$0`")
}
