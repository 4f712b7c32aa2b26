// Package rule holds the rules that several kinds share, as pure functions from specs to findings.
//
// A rule judges one state of an object. Whether a finding counts is decided elsewhere, by taking away what was already
// wrong before (Findings.Without). That keeps every rule free of the question what changed, at the price that each is
// evaluated twice for an update. Only what forbids a change looks at two states.
//
// Rules refuse nothing that CAPM3 accepted, unless it could never have worked. What deserves attention and is legal
// is a warning. No finding repeats credentials: URLs are shown without user information and query.
package rule

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Findings are what the rules have to say about an object.
type Findings struct {
	// Errors refuse the object.
	Errors field.ErrorList

	// Warnings are shown to the user, who may go on.
	Warnings []string
}

// Refusals are findings without warnings.
func Refusals(errs ...*field.Error) Findings {
	return Findings{Errors: slices.DeleteFunc(errs, func(err *field.Error) bool { return err == nil })}
}

// Warn returns one warning about the field at the path.
func Warn(path *field.Path, format string, values ...any) Findings {
	return Findings{Warnings: []string{path.String() + ": " + fmt.Sprintf(format, values...)}}
}

// Join puts findings one after the other.
func Join(all ...Findings) Findings {
	var joined Findings
	for _, findings := range all {
		joined.Errors = append(joined.Errors, findings.Errors...)
		joined.Warnings = append(joined.Warnings, findings.Warnings...)
	}
	return joined
}

// Without returns the findings that were not there before. Two errors are the same if they name the same field, value
// and reason: a value that changed from one wrong value to another is a new error.
func (f Findings) Without(before Findings) Findings {
	known := sets.New(before.Warnings...)
	for _, err := range before.Errors {
		known.Insert(err.Error())
	}
	var rest Findings
	for _, err := range f.Errors {
		if !known.Has(err.Error()) {
			rest.Errors = append(rest.Errors, err)
		}
	}
	for _, warning := range f.Warnings {
		if !known.Has(warning) {
			rest.Warnings = append(rest.Warnings, warning)
		}
	}
	return rest
}
