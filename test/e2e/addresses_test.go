package e2e_test

import (
	"context"

	metal3ipamv1 "github.com/metal3-io/ip-address-manager/api/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab"
)

// allocated returns the addresses of the pool that are allocated to machines, by the names of their objects.
func (e *endpoint) allocated(ctx context.Context, g Gomega) map[string]string {
	var list metal3ipamv1.IPAddressList
	g.Expect(e.List(ctx, &list, client.InNamespace(lab.Namespace))).To(Succeed())
	found := map[string]string{}
	for _, address := range list.Items {
		found[address.Name] = string(address.Spec.Address)
	}
	return found
}

// untilAddressed waits until each worker has an address of the pool, and its Node reports no other one.
func (e *endpoint) untilAddressed(ctx context.Context) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		var given []any
		for _, address := range e.allocated(ctx, g) {
			given = append(given, address)
		}
		g.Expect(given).To(HaveLen(e.workers))
		var nodes corev1.NodeList
		g.Expect(e.workload.Client.List(ctx, &nodes)).To(Succeed())
		var reported []string
		for _, node := range nodes.Items {
			if _, ofControlPlane := node.Labels[controlPlaneLabel]; ofControlPlane {
				continue
			}
			for _, address := range node.Status.Addresses {
				if address.Type == corev1.NodeInternalIP {
					reported = append(reported, address.Address)
				}
			}
		}
		g.Expect(reported).To(ConsistOf(given...))
	}, patiently()...).Should(Succeed())
}
