package rbac_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
)

// right is one thing that a role allows: "patch metal3.io/baremetalhosts/status".
func right(verb, group, resource string) string { return verb + " " + group + "/" + resource }

// rights takes rules apart.
func rights(rules []rbacv1.PolicyRule) []string {
	var list []string
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					list = append(list, right(verb, group, resource))
				}
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// unused returns the rights that no request has used. A right to get comes with a right to list: it allows nothing
// more, what is read is read from a cache, and only some failures make somebody look at the API server itself.
func unused(granted []string, requests []env.Request) []string {
	used := map[string]bool{}
	for _, request := range requests {
		resource := request.Resource
		if request.Subresource != "" {
			resource += "/" + request.Subresource
		}
		used[right(request.Verb, request.Group, resource)] = true
		used[right(request.Verb, request.Group, "*")] = true
	}
	var left []string
	for _, this := range granted {
		resource, isGet := strings.CutPrefix(this, "get ")
		if !used[this] && (!isGet || !slices.Contains(granted, "list "+resource)) {
			left = append(left, this)
		}
	}
	return left
}

// refused returns the requests that the API server forbade.
func refused(requests []env.Request) []string {
	var list []string
	for _, request := range requests {
		if request.Code == http.StatusForbidden {
			list = append(list, request.Group+" "+request.String()+" "+request.Namespace+"/"+request.Name)
		}
	}
	return list
}

func TestUnused(t *testing.T) {
	rules := []rbacv1.PolicyRule{
		{APIGroups: []string{"", "a"}, Resources: []string{"secrets"}, Verbs: []string{"get", "list"}},
		{APIGroups: []string{"a"}, Resources: []string{"things/status", "others"}, Verbs: []string{"patch", "get"}},
		{APIGroups: []string{"b"}, Resources: []string{"*"}, Verbs: []string{"get", "delete"}},
	}
	requests := []env.Request{
		{Verb: "list", Resource: "secrets"},
		{Verb: "patch", Group: "a", Resource: "things", Subresource: "status"},
		{Verb: "patch", Group: "c", Resource: "others"},
		{Verb: "get", Group: "b", Resource: "anything"},
	}
	want := []string{
		"delete b/*", "get a/others", "get a/things/status", "list a/secrets", "patch a/others",
	}
	if diff := cmp.Diff(want, unused(rights(rules), requests)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestRefused(t *testing.T) {
	requests := []env.Request{
		{Verb: "get", Resource: "secrets", Namespace: "a", Name: "b", Code: 403},
		{Verb: "get", Resource: "secrets", Code: 404},
		{Verb: "patch", Group: "c", Resource: "things", Subresource: "status", Name: "d", Code: 403},
	}
	if diff := cmp.Diff([]string{" get secrets a/b", "c patch things/status /d"}, refused(requests)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
