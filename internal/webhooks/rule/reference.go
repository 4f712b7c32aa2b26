package rule

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// OwnNamespace refuses a reference into a namespace other than the object's own: users who may write the object could
// read objects of other namespaces through it.
func OwnNamespace(path *field.Path, referenced, own string) *field.Error {
	if referenced == "" || referenced == own {
		return nil
	}
	return field.Invalid(path.Child("namespace"), referenced,
		fmt.Sprintf("is not the object's own namespace; use %q or leave the field out", own))
}

func ownSecret(path *field.Path, reference *corev1.SecretReference, own string) *field.Error {
	if reference == nil {
		return nil
	}
	return OwnNamespace(path, reference.Namespace, own)
}

// SameReference refuses to change a reference that is set. Leaving the namespace out means the object's own.
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

// shownURL is a URL without what may be secret: the query, which holds the signature of presigned URLs, and all before
// the last @, because a password with unescaped letters is a frequent reason why a URL cannot be parsed.
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
