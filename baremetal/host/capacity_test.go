package host_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

func TestCapacity(t *testing.T) {
	with := func(cpus, mebibytes int, architecture string) *bmov1alpha1.BareMetalHost {
		return edit(build.Host("host", build.Hardware(cpus, mebibytes)), func(h *bmov1alpha1.BareMetalHost) {
			h.Status.HardwareDetails.CPU.Arch = architecture
		})
	}
	resources := func(cpus, memory infrav1.Quantity) map[corev1.ResourceName]infrav1.Quantity {
		return map[corev1.ResourceName]infrav1.Quantity{corev1.ResourceCPU: cpus, corev1.ResourceMemory: memory}
	}
	info := func(architecture infrav1.Architecture) *infrav1.NodeInfo {
		return &infrav1.NodeInfo{Architecture: architecture, OperatingSystem: "linux"}
	}
	cases := map[string]struct {
		hosts    []*bmov1alpha1.BareMetalHost
		capacity map[corev1.ResourceName]infrav1.Quantity
		info     *infrav1.NodeInfo
	}{
		"no host": {},
		"no host was inspected": {
			hosts: []*bmov1alpha1.BareMetalHost{build.Host("a"), with(0, 1024, "x86_64"),
				with(4, 0, "x86_64"), with(-1, 1024, "")},
		},
		"one host": {
			hosts: []*bmov1alpha1.BareMetalHost{with(4, 2048, "x86_64")}, capacity: resources("4", "2Gi"), info: info("amd64"),
		},
		"the minimum of each resource, also from different hosts": {
			hosts:    []*bmov1alpha1.BareMetalHost{with(4, 2048, "x86_64"), with(2, 4096, "x86_64"), build.Host("a")},
			capacity: resources("2", "2Gi"), info: info("amd64"),
		},
		"both names of an architecture are equal": {
			hosts:    []*bmov1alpha1.BareMetalHost{with(4, 2048, "aarch64"), with(4, 2048, "arm64")},
			capacity: resources("4", "2Gi"), info: info("arm64"),
		},
		"hosts of different architectures have none": {
			hosts:    []*bmov1alpha1.BareMetalHost{with(4, 2048, "aarch64"), with(4, 2048, "x86_64")},
			capacity: resources("4", "2Gi"), info: info(""),
		},
		"an unknown architecture is none": {
			hosts: []*bmov1alpha1.BareMetalHost{with(4, 2048, "riscv")}, capacity: resources("4", "2Gi"), info: info(""),
		},
		"an architecture with one name": {
			hosts: []*bmov1alpha1.BareMetalHost{with(4, 2048, "ppc64le")}, capacity: resources("4", "2Gi"),
			info: info("ppc64le"),
		},
		"the memory is exact": {
			hosts: []*bmov1alpha1.BareMetalHost{with(1, 1025, "s390x")}, capacity: resources("1", "1025Mi"),
			info: info("s390x"),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			capacity, info := host.Capacity(tc.hosts)
			if diff := cmp.Diff(tc.capacity, capacity); diff != "" {
				t.Errorf("capacity: -want +got:\n%s", diff)
			}
			if diff := cmp.Diff(tc.info, info); diff != "" {
				t.Errorf("node info: -want +got:\n%s", diff)
			}
		})
	}
}
