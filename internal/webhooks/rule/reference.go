package rule

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// OwnNamespace refuses a reference into another namespace: users that may write the object could read objects of other
// namespaces through it.
func OwnNamespace(path *field.Path, referenced, own string) *field.Error {
	if referenced == "" || referenced == own {
		return nil
	}
	return field.Invalid(path.Child("namespace"), referenced,
		fmt.Sprintf("is not the object's own namespace; use %q or leave the field out", own))
}

// SameReference refuses to change a reference that is set. An empty namespace means that of the object.
func SameReference(path *field.Path, before, after *infrav1.Metal3ObjectRef, own string) Findings {
	const remedy = "create a new object instead"
	if before == nil || before.Name == "" {
		return Findings{}
	}
	if after == nil {
		return Refusals(field.Required(path, fmt.Sprintf("is %q and does not change; %s", before.Name, remedy)))
	}
	return Refusals(
		Unchanged(path.Child("name"), before.Name, after.Name, remedy),
		Unchanged(path.Child("namespace"), inNamespace(before, own), inNamespace(after, own), remedy),
	)
}

func inNamespace(reference *infrav1.Metal3ObjectRef, own string) string {
	if reference.Namespace == "" {
		return own
	}
	return reference.Namespace
}

// shownURL returns a URL without secrets: without the query, which has the signature of presigned URLs, and without all
// text before the last @, because an unescaped password is a frequent reason for an invalid URL.
func shownURL(raw string) string {
	scheme, rest, found := strings.Cut(raw, "://")
	if !found {
		scheme, rest = "", raw
	} else {
		scheme += "://"
	}
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		rest = "***" + rest[at:]
	}
	if shown, _, cut := strings.Cut(rest, "?"); cut {
		rest = shown + "?***"
	}
	return scheme + rest
}
