package ironic_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/ironic"
)

// TestResources overrides resources of containers.
func TestResources(t *testing.T) {
	list := func(cpu, memory string) corev1.ResourceList {
		amounts := corev1.ResourceList{}
		for name, amount := range map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory} {
			if amount != "" {
				amounts[name] = resource.MustParse(amount)
			}
		}
		return amounts
	}
	for name, test := range map[string]struct {
		reason     string
		given      map[string]corev1.ResourceRequirements
		pod        int
		container  string
		want, most corev1.ResourceList
	}{
		"none": {reason: "the defaults", pod: 0, container: "ironic", want: list("100m", "320Mi")},
		"requests": {
			reason: "the other request stays",
			given:  map[string]corev1.ResourceRequirements{"ironic": {Requests: list("2", "")}},
			pod:    0, container: "ironic", want: list("2", "320Mi"),
		},
		"a limit": {
			reason: "above the request",
			given:  map[string]corev1.ResourceRequirements{"guard": {Limits: list("", "1Gi")}},
			pod:    1, container: "guard", want: list("100m", "32Mi"), most: list("", "1Gi"),
		},
		"a low limit": {
			reason: "the kubelet refuses a request above it",
			given:  map[string]corev1.ResourceRequirements{"httpd": {Limits: list("10m", "")}},
			pod:    0, container: "httpd", want: list("10m", "64Mi"), most: list("10m", ""),
		},
		"an init container": {
			reason: "the container unpacks the ramdisk",
			given:  map[string]corev1.ResourceRequirements{"download": {Requests: list("", "1Gi")}},
			pod:    0, container: "download", want: list("20m", "1Gi"),
		},
		"another container": {
			reason: "each container has its own resources",
			given:  map[string]corev1.ResourceRequirements{"httpd": {Requests: list("2", "2Gi")}},
			pod:    0, container: "ironic", want: list("100m", "320Mi"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			config := least()
			config.Settings.Resources = test.given
			pods, err := ironic.Pods(config)
			if err != nil {
				t.Fatal(err)
			}
			spec := pods[test.pod].Spec
			for _, container := range append(spec.InitContainers, spec.Containers...) {
				if container.Name != test.container {
					continue
				}
				want := corev1.ResourceRequirements{Requests: test.want, Limits: test.most}
				if diff := cmp.Diff(want, container.Resources); diff != "" {
					t.Errorf("%s (-want +got):\n%s", test.reason, diff)
				}
				return
			}
			t.Errorf("there is no container %s", test.container)
		})
	}
}
