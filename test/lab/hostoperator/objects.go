package hostoperator

import (
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// Namespace is the Baremetal Operator's, so that everything which looks for it looks in the right place.
	Namespace = "baremetal-operator-system"

	// Name is that of the account and its roles. It tells people that this is a stand-in.
	Name = "lab-host-operator"
)

// Objects are the account of the operator and its rights.
func Objects() []client.Object {
	named := metav1.ObjectMeta{Name: Name, Labels: podLabels()}
	inside := metav1.ObjectMeta{Namespace: Namespace, Name: Name, Labels: podLabels()}
	account := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: Namespace, Name: Name}}
	version := rbacv1.SchemeGroupVersion.String()
	return []client.Object{
		&corev1.Namespace{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
			ObjectMeta: metav1.ObjectMeta{Name: Namespace},
		},
		&corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: inside},
		&rbacv1.ClusterRole{
			TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "ClusterRole"}, ObjectMeta: named, Rules: clusterRules(),
		},
		&rbacv1.ClusterRoleBinding{
			TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "ClusterRoleBinding"}, ObjectMeta: named,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: Name}, Subjects: account,
		},
	}
}

func podLabels() map[string]string { return map[string]string{"app.kubernetes.io/name": Name} }

// clusterRules are what the controller does and nothing more. Hosts may lie in any namespace, and so may their Secrets.
func clusterRules() []rbacv1.PolicyRule {
	hosts := bmov1alpha1.GroupVersion.Group
	return []rbacv1.PolicyRule{
		{
			APIGroups: []string{hosts}, Resources: []string{"baremetalhosts"},
			Verbs: []string{"get", "list", "watch", "patch"},
		},
		{APIGroups: []string{hosts}, Resources: []string{"baremetalhosts/status"}, Verbs: []string{"update"}},
		// To own a HardwareData that keeps the host until it is gone.
		{APIGroups: []string{hosts}, Resources: []string{"baremetalhosts/finalizers"}, Verbs: []string{"update"}},
		{
			APIGroups: []string{hosts}, Resources: []string{"hardwaredata"},
			Verbs: []string{"get", "create", "update", "patch"},
		},
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list", "watch", "patch"}},
	}
}
