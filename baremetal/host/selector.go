package host

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// operators returns the operator of a label selector. The name is case-insensitive.
func operators(name string) (selection.Operator, bool) {
	switch strings.ToLower(name) {
	case "in":
		return selection.In, true
	case "notin":
		return selection.NotIn, true
	case "exists":
		return selection.Exists, true
	case "doesnotexist", "!":
		return selection.DoesNotExist, true
	case "=", "==":
		return selection.Equals, true
	case "!=":
		return selection.NotEquals, true
	case "gt":
		return selection.GreaterThan, true
	case "lt":
		return selection.LessThan, true
	default:
		return "", false
	}
}

// Selector converts a HostSelector to a label selector. The error names every invalid field, its value and the valid
// values.
func Selector(wanted infrav1.HostSelector) (labels.Selector, error) {
	var requirements []labels.Requirement
	var problems []error
	for _, key := range slices.Sorted(maps.Keys(wanted.MatchLabels)) {
		value := wanted.MatchLabels[key]
		requirement, err := labels.NewRequirement(key, selection.Equals, []string{value})
		if err != nil {
			problems = append(problems, fmt.Errorf("spec.hostSelector.matchLabels[%s]=%q: %w", key, value, err))
			continue
		}
		requirements = append(requirements, *requirement)
	}
	for i, expression := range wanted.MatchExpressions {
		requirement, err := requirementOf(expression)
		if err != nil {
			problems = append(problems, fmt.Errorf("spec.hostSelector.matchExpressions[%d]: %w", i, err))
			continue
		}
		requirements = append(requirements, *requirement)
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return labels.NewSelector().Add(requirements...), nil
}

func requirementOf(expression infrav1.HostSelectorRequirement) (*labels.Requirement, error) {
	operator, known := operators(expression.Operator)
	if !known {
		return nil, fmt.Errorf("operator %q is unknown, use In, NotIn, Exists, DoesNotExist (or !), Gt, Lt, =, == or !=",
			expression.Operator)
	}
	requirement, err := labels.NewRequirement(expression.Key, operator, expression.Values)
	if err != nil {
		return nil, fmt.Errorf("key %q, operator %q, values %q: %w",
			expression.Key, expression.Operator, expression.Values, err)
	}
	return requirement, nil
}
