package host

import (
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// Capacity returns the minimum of CPU and memory over the inspected hosts, and their architecture if all have the same
// one. It returns nil if no host was inspected. The autoscaler uses the minimum because a pending Pod must fit on any
// of the hosts.
func Capacity(hosts []*bmov1alpha1.BareMetalHost) (map[corev1.ResourceName]infrav1.Quantity, *infrav1.NodeInfo) {
	var cpus, mebibytes int64
	architectures := map[infrav1.Architecture]bool{}
	for _, host := range hosts {
		details := host.Status.HardwareDetails
		if details == nil || details.CPU.Count <= 0 || details.RAMMebibytes <= 0 {
			continue
		}
		cpus = least(cpus, int64(details.CPU.Count))
		mebibytes = least(mebibytes, int64(details.RAMMebibytes))
		architectures[architectureOf(details.CPU.Arch)] = true
	}
	if cpus == 0 {
		return nil, nil
	}
	info := &infrav1.NodeInfo{OperatingSystem: "linux"}
	if len(architectures) == 1 {
		for architecture := range architectures {
			info.Architecture = architecture
		}
	}
	return map[corev1.ResourceName]infrav1.Quantity{
		corev1.ResourceCPU:    infrav1.Quantity(resource.NewQuantity(cpus, resource.DecimalSI).String()),
		corev1.ResourceMemory: infrav1.Quantity(resource.NewQuantity(mebibytes<<20, resource.BinarySI).String()),
	}, info
}

func least(current, value int64) int64 {
	if current == 0 {
		return value
	}
	return min(current, value)
}

// architectureOf converts an architecture of the Linux kernel to that of Kubernetes. It returns an empty string for
// unknown architectures.
func architectureOf(name string) infrav1.Architecture {
	switch name {
	case "x86_64", "amd64":
		return "amd64"
	case "aarch64", "arm64":
		return "arm64"
	case "ppc64le", "s390x":
		return infrav1.Architecture(name)
	default:
		return ""
	}
}
