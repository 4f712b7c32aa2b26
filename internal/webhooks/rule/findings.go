// Package rule has the common validation rules of several kinds, as pure functions from specs to findings.
//
// A rule validates one state of an object. Findings.Without removes the findings that existed before an update.
// Therefore rules do not compare states, and run twice for an update. Only rules that forbid a change compare two
// states.
//
// Rules refuse nothing that CAPM3 accepts, unless it can never work. Legal values that are probably wrong are warnings.
// No finding contains credentials: URLs have no user information and no query.
package rule

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Findings are the errors and warnings for an object.
type Findings struct {
	// Errors refuse the object.
	Errors field.ErrorList

	// Warnings are shown to the user, and do not refuse the object.
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

// Join concatenates findings.
func Join(all ...Findings) Findings {
	var joined Findings
	for _, findings := range all {
		joined.Errors = append(joined.Errors, findings.Errors...)
		joined.Warnings = append(joined.Warnings, findings.Warnings...)
	}
	return joined
}

// Without returns the findings that did not exist before. Two errors are equal if they have the same field, value and
// reason: another invalid value is a new error.
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
