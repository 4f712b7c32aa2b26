package plugin_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// describePermissions has the stories of users with the permissions that docs/plugin.md lists, and no others.
func describePermissions(c *clusters) {
	// user returns the kubeconfigs of a user who may read one namespace, and resources of the whole cluster.
	user := func(ctx context.Context, name string, everywhere []rbacv1.PolicyRule) (namespace, source, target string) {
		namespace = stage.Namespace(ctx, c.source)
		Expect(c.target.Client.Create(ctx, build.Namespace(namespace))).To(Succeed())
		settle(ctx, c.source, namespace)
		for _, server := range []*env.Server{c.source, c.target} {
			permit(ctx, server, name, "", everywhere...)
			permit(ctx, server, name, namespace, readers([]string{"*"}, "*"))
			permit(ctx, server, name, operatorKey().Namespace, readers([]string{""}, "configmaps"))
		}
		return namespace, userFile(c.source, name), userFile(c.target, name)
	}

	It("shows the status of a namespace to a user who lists Metal3Clusters", func(ctx context.Context) {
		namespace, source, target := user(ctx, "viewer", []rbacv1.PolicyRule{
			readers([]string{"infrastructure.cluster.x-k8s.io"}, "metal3clusters"),
		})
		Expect(runOn(ctx, source, target, namespace, "status")).To(end(0, namespace+"/"+clusterName))
	})

	It("judges a move for a user with the documented permissions", func(ctx context.Context) {
		namespace, source, target := user(ctx, "judge", []rbacv1.PolicyRule{
			readers([]string{"infrastructure.cluster.x-k8s.io"}, "metal3clusters"),
			readers([]string{"metal3.io"}, "baremetalhosts"),
			readers([]string{"clusterctl.cluster.x-k8s.io"}, "providers"),
			readers([]string{"apiextensions.k8s.io"}, "customresourcedefinitions"),
			readers([]string{"runtime.cluster.x-k8s.io"}, "extensionconfigs"),
			readers([]string{"apps"}, "deployments"),
			{APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{"kube-system"}, Verbs: []string{"get"}},
		})
		Expect(runOn(ctx, source, target, namespace, "preflight")).To(end(0, "Ready"))
	})
}

// readers permits to read resources.
func readers(groups []string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: groups, Resources: resources, Verbs: []string{"get", "list"}}
}

// permit gives a user permissions in a namespace, or in all if it is empty, until the end of the story.
func permit(ctx context.Context, server *env.Server, user, namespace string, rules ...rbacv1.PolicyRule) {
	GinkgoHelper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: user}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
	reference := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user}
	objects := []client.Object{
		&rbacv1.Role{ObjectMeta: meta, Rules: rules},
		&rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: reference},
	}
	if namespace == "" {
		reference.Kind = "ClusterRole"
		objects = []client.Object{
			&rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules},
			&rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: reference},
		}
	}
	for _, object := range objects {
		Expect(server.Client.Create(ctx, object)).To(Succeed())
		DeferCleanup(func(ctx context.Context) {
			Expect(server.Client.Delete(ctx, object)).To(Succeed())
		})
	}
}
