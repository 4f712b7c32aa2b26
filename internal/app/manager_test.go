package app

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	infrav1beta1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta1"
	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

func TestScheme(t *testing.T) {
	scheme := NewScheme()
	kinds := []schema.GroupVersionKind{
		clusterv1.GroupVersion.WithKind("Cluster"), clusterv1.GroupVersion.WithKind("Machine"),
		bmov1alpha1.GroupVersion.WithKind("BareMetalHost"), corev1.SchemeGroupVersion.WithKind("Secret"),
		corev1.SchemeGroupVersion.WithKind("Node"),
		{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
	}
	for _, kind := range []string{
		"Metal3Cluster", "Metal3ClusterTemplate", "Metal3Machine", "Metal3MachineTemplate", "Metal3Data",
		"Metal3DataClaim", "Metal3DataTemplate", "Metal3Remediation", "Metal3RemediationTemplate",
	} {
		for _, name := range []string{kind, kind + "List"} {
			kinds = append(kinds, infrav1beta1.GroupVersion.WithKind(name), infrav1.GroupVersion.WithKind(name))
		}
	}
	for _, kind := range kinds {
		if !scheme.Recognizes(kind) {
			t.Errorf("%s is missing", kind)
		}
	}
}

func TestSlimSecret(t *testing.T) {
	secret := func(name string, data map[string][]byte, managed ...metav1.ManagedFieldsEntry) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"a": "b"}, ManagedFields: managed},
			Data:       data,
		}
	}
	managed := metav1.ManagedFieldsEntry{Manager: "other"}
	value := map[string][]byte{"value": []byte("secret")}
	cases := map[string]struct {
		reason   string
		in, want any
	}{
		"BootstrapData": {
			"the cache keeps the keys without their values",
			secret("a", map[string][]byte{"value": []byte("secret"), "format": []byte("ignition")}, managed),
			secret("a", map[string][]byte{"value": nil, "format": nil}),
		},
		"Kubeconfig": {"the ClusterCache reads it", secret("a-kubeconfig", value, managed), secret("a-kubeconfig", value)},
		"Lookalike": {
			"only the suffix of the name counts", secret("kubeconfig-of-a", map[string][]byte{"value": []byte("secret")}),
			secret("kubeconfig-of-a", map[string][]byte{"value": nil}),
		},
		"Empty":    {"a Secret without data", secret("a", nil), secret("a", nil)},
		"NoSecret": {"another type", cache.ByObject{}, cache.ByObject{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := slimSecret(tc.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestClusterSecrets(t *testing.T) {
	for name, want := range map[string]bool{clusterv1.ClusterNameLabel: true, "other": false} {
		if got := clusterSecrets().Matches(labels.Set{name: "cluster"}); got != want {
			t.Errorf("a Secret with label %s: cached: %t, want %t", name, got, want)
		}
	}
}

func TestCacheOptions(t *testing.T) {
	all := cacheOptions(&Flags{SyncPeriod: time.Minute})
	if *all.SyncPeriod != time.Minute || all.DefaultNamespaces != nil {
		t.Errorf("got %s in %v, want a minute in all namespaces", *all.SyncPeriod, all.DefaultNamespaces)
	}
	one := cacheOptions(&Flags{Namespace: "metal3"})
	if _, found := one.DefaultNamespaces["metal3"]; !found || len(one.DefaultNamespaces) != 1 {
		t.Errorf("got namespaces %v, want metal3", one.DefaultNamespaces)
	}
	for kind, options := range one.ByObject {
		_, isInfra := kind.(*infrav1.Metal3Cluster)
		if everywhere := options.Namespaces != nil && len(options.Namespaces) == 0; everywhere != isInfra {
			t.Errorf("%T: got all namespaces %t, want %t", kind, everywhere, isInfra)
		}
	}
	if len(one.ByObject) != 3 {
		t.Errorf("got %d kinds with options, want 3", len(one.ByObject))
	}
}

func TestTheWatchFilterDoesNotApplyToClusters(t *testing.T) {
	if got := connections(nil, &Flags{WatchFilter: "mine"}).WatchFilterValue; got != "" {
		t.Errorf("got the watch filter %q for Clusters, want none", got)
	}
}

func TestIsOurs(t *testing.T) {
	group := infrav1.GroupVersion.Group
	cases := map[string]struct {
		reason      string
		group, kind string
		want        bool
	}{
		"Ours":       {"a cluster on bare metal", group, "Metal3Cluster", true},
		"OtherKind":  {"the group is shared by all providers", group, "OtherCluster", false},
		"OtherGroup": {"so is the name", "example.com", "Metal3Cluster", false},
		"None":       {"a Cluster without infrastructure", "", "", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			cluster := &clusterv1.Cluster{}
			cluster.Spec.InfrastructureRef.APIGroup, cluster.Spec.InfrastructureRef.Kind = tc.group, tc.kind
			if got := isOurs(cluster); got != tc.want {
				t.Errorf("%s: got %t, want %t", tc.reason, got, tc.want)
			}
		})
	}
}

func TestSpecProblem(t *testing.T) {
	machine := &infrav1.Metal3Machine{}
	if got := specProblem(machine); !strings.Contains(got, "spec.image") {
		t.Errorf("got %q, want that the image is missing", got)
	}
	machine.Spec.CustomDeploy = &infrav1.CustomDeploy{Method: "install"}
	if got := specProblem(machine); got != "" {
		t.Errorf("got %q for a machine that can be served", got)
	}
}
