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

// right is one permission of a role: "patch metal3.io/baremetalhosts/status".
func right(verb, group, resource string) string { return verb + " " + group + "/" + resource }

// rights returns the permissions of rules.
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

// explained are the permissions that the stories do not always use, with the reasons.
func explained() map[string]string {
	return map[string]string{
		"patch events.k8s.io/events":            "a repeated event increases the count of an existing one",
		"get /namespaces":                       "compared with the namespace of a workload cluster with an Ironic endpoint",
		"patch metal3.io/baremetalhosts/status": "restores the status of a host after Ironic was lost during provisioning",
		"delete infrastructure.cluster.x-k8s.io/metal3remediations": "deletes the request of a MachineHealthCheck that does " +
			"not report its Machine, after the timeout of a try, which is at least 100 s",
	}
}

// comesWith returns another permission that implies this one:
//
//	get    with list     most reads use the cache, and a list returns the same objects
//	list   with watch    a watch may begin with a list
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

// unused returns the permissions that no request has used, and that no used permission implies.
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

// refused returns the requests that the API server refused.
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
