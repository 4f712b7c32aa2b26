package managers_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/managers"
)

// TestStartFails tests the errors of Start. The integration suite runs the managers.
func TestStartFails(t *testing.T) {
	server, err := env.Start(t.Context(), env.Options{Definitions: []components.Group{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	cases := map[string]struct {
		reason      string
		deployments []string
		container   string
		want        []string
	}{
		"Missing":   {"a provider must be installed first", nil, "manager", []string{"0 Deployments", "install"}},
		"Ambiguous": {"one Deployment is required", []string{"one", "two"}, "manager", []string{"2 Deployments"}},
		"Container": {"the contract names the container", []string{"one"}, "other", []string{"one", "no container manager"}},
		"Ended": {
			"an ended manager is never ready", []string{"one"}, "manager",
			[]string{"ended before it was ready", "--installed-flag", "--health-addr=127.0.0.1:", "--own-flag"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			namespace := strings.ToLower(name)
			install(t, server, namespace, tc.container, tc.deployments...)
			_, err := managers.Start(t.Context(), server, managers.Manager{
				Path: "/bin/echo", Namespace: namespace, Args: []string{"--own-flag"},
			})
			for _, want := range tc.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: error %v, want it to contain %q", tc.reason, err, want)
				}
			}
		})
	}
}

func install(t *testing.T, server *env.Server, namespace, container string, deployments ...string) {
	t.Helper()
	if err := server.Client.Create(t.Context(), build.Namespace(namespace)); err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{"app": "manager"}
	for _, name := range deployments {
		if err := server.Client.Create(t.Context(), &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec: corev1.PodSpec{
						ServiceAccountName: "manager",
						Containers:         []corev1.Container{{Name: container, Image: "image", Args: []string{"--installed-flag"}}},
					},
				},
			},
		}); err != nil {
			t.Fatal(err)
		}
	}
}
