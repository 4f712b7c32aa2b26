package manifests_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
)

// rules returns the rules of all roles, by the name of the role.
func rules(t *testing.T) map[string][]rbacv1.PolicyRule {
	t.Helper()
	objects := components(t)
	found := map[string][]rbacv1.PolicyRule{}
	for _, object := range ofKind(objects, "ClusterRole") {
		role := &rbacv1.ClusterRole{}
		decode(t, object, role)
		if role.AggregationRule != nil {
			t.Errorf("%s: an aggregated role, which other users can extend", role.Name)
		}
		found[role.Name] = role.Rules
	}
	for _, object := range ofKind(objects, "Role") {
		role := &rbacv1.Role{}
		decode(t, object, role)
		found[role.Name] = role.Rules
	}
	return found
}

func TestRolesAreNarrow(t *testing.T) {
	// Each of these permits an escalation of permissions.
	forbidden := []string{"*", "bind", "escalate", "impersonate"}
	for name, list := range rules(t) {
		if len(list) == 0 {
			t.Errorf("%s has no rules", name)
		}
		for _, rule := range list {
			if coversAnything(rule) && !readsControlPlanes(rule) && !readsMetrics(rule) {
				t.Errorf("%s: %v is broader than the table", name, rule)
			}
			for _, verb := range rule.Verbs {
				if slices.Contains(forbidden, verb) {
					t.Errorf("%s: verb %s on %v", name, verb, rule.Resources)
				}
			}
		}
	}
}

func coversAnything(rule rbacv1.PolicyRule) bool {
	return slices.Contains(rule.APIGroups, "*") || slices.Contains(rule.Resources, "*") || len(rule.NonResourceURLs) != 0
}

// readsControlPlanes is an exception: a control plane may be of any kind, and all kinds are in one group.
func readsControlPlanes(rule rbacv1.PolicyRule) bool {
	return slices.Equal(rule.APIGroups, []string{"controlplane.cluster.x-k8s.io"}) &&
		slices.Equal(rule.Verbs, []string{"get"})
}

// readsMetrics is the role of scrapers, which the user binds.
func readsMetrics(rule rbacv1.PolicyRule) bool {
	return slices.Equal(rule.NonResourceURLs, []string{"/metrics"}) && slices.Equal(rule.Verbs, []string{"get"})
}

// TestNoRoleDeletesSecrets requires that no role may delete Secrets. The manager writes Secrets of Ironic endpoints
// and of bootstrap data, which are deleted with their owners.
func TestNoRoleDeletesSecrets(t *testing.T) {
	for name, list := range rules(t) {
		for _, rule := range list {
			if !slices.Contains(rule.Resources, "secrets") {
				continue
			}
			for _, verb := range rule.Verbs {
				if !slices.Contains([]string{"get", "list", "watch", "create", "patch"}, verb) {
					t.Errorf("%s may %s secrets", name, verb)
				}
			}
		}
	}
}

// TestLeaderElectionHasTheRequestsOfClientGo requires the verbs of LeaseLock in client-go, for the Lease of the
// manager.
func TestLeaderElectionHasTheRequestsOfClientGo(t *testing.T) {
	leases, lease := "coordination.k8s.io", leaderElectionID(t)
	want := []rbacv1.PolicyRule{
		{APIGroups: []string{leases}, Resources: []string{"leases"}, Verbs: []string{"create"}},
		{
			APIGroups: []string{leases}, Resources: []string{"leases"}, ResourceNames: []string{lease},
			Verbs: []string{"get", "update"},
		},
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	}
	if diff := cmp.Diff(want, rules(t)["capm3-leader-election-role"]); diff != "" {
		t.Errorf("rules: -want, +got:\n%s", diff)
	}
}

// leaderElectionID returns the name of the Lease of the manager.
func leaderElectionID(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(checkout(t), "internal", "app", "manager.go"))
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(`(?m)^\s+leaderElectionID = "([^"]+)"$`).FindSubmatch(content)
	if match == nil {
		t.Fatal("internal/app/manager.go has no leaderElectionID: correct this test")
	}
	return string(match[1])
}

func TestRolesAreBoundToTheManager(t *testing.T) {
	objects := components(t)
	deployment, _ := manager(t, objects)
	want := []rbacv1.Subject{{
		Kind: "ServiceAccount", Name: deployment.Spec.Template.Spec.ServiceAccountName, Namespace: namespace,
	}}
	cluster := only[rbacv1.ClusterRoleBinding](t, objects, "ClusterRoleBinding")
	local := only[rbacv1.RoleBinding](t, objects, "RoleBinding")
	for role, subjects := range map[string][]rbacv1.Subject{
		cluster.RoleRef.Name: cluster.Subjects, local.RoleRef.Name: local.Subjects,
	} {
		if diff := cmp.Diff(want, subjects); diff != "" {
			t.Errorf("subjects of %s: -want, +got:\n%s", role, diff)
		}
		if _, exists := rules(t)[role]; !exists {
			t.Errorf("role %s does not exist", role)
		}
	}
	if accounts := ofKind(objects, "ServiceAccount"); len(accounts) != 1 || accounts[0].GetName() != want[0].Name {
		t.Errorf("service accounts are %v, want one, %s", accounts, want[0].Name)
	}
}
