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

// argued are the rights that the stories do not use for certain, and why the manager has them.
func argued() map[string]string {
	return map[string]string{
		"patch events.k8s.io/events":            "an event that repeats for one version of an object is counted, not created again",
		"get /namespaces":                       "compared with that of a workload cluster with an Ironic endpoint, once it answers",
		"patch metal3.io/baremetalhosts/status": "an Ironic that is lost in the middle of provisioning must not cost a node",
	}
}

// comesWith says that a right comes with others, which have to be used then.
//
//	get    with list     it allows nothing more; what is read is read from a cache, but after some failures
//	list   with watch    a watch begins with a list where the API server cannot send one by itself
func comesWith(this string) string {
	verb, what, _ := strings.Cut(this, " ")
	switch verb {
	case "get":
		return "list " + what
	case "list":
		return "watch " + what
	default:
		return this
	}
}

// unused returns the rights that no request has used, neither themselves nor those that they come with.
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
	var isUsed func(this string) bool
	isUsed = func(this string) bool {
		with := comesWith(this)
		return used[this] || (with != this && slices.Contains(granted, with) && isUsed(with))
	}
	return slices.DeleteFunc(slices.Clone(granted), isUsed)
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
		{APIGroups: []string{"d", "e"}, Resources: []string{"watched"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{"a"}, Resources: []string{"things/status", "others"}, Verbs: []string{"patch", "get"}},
		{APIGroups: []string{"b"}, Resources: []string{"*"}, Verbs: []string{"get", "delete"}},
	}
	requests := []env.Request{
		{Verb: "list", Resource: "secrets"},
		{Verb: "watch", Group: "d", Resource: "watched"},
		{Verb: "patch", Group: "a", Resource: "things", Subresource: "status"},
		{Verb: "patch", Group: "c", Resource: "others"},
		{Verb: "get", Group: "b", Resource: "anything"},
	}
	want := []string{
		"delete b/*", "get a/others", "get a/secrets", "get a/things/status", "get e/watched", "list a/secrets",
		"list e/watched", "patch a/others", "watch e/watched",
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
