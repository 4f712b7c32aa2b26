package metal3machine_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

func (w *world) dump(ctx context.Context) {
	if !CurrentSpecReport().Failed() {
		return
	}
	var list infrav1.Metal3MachineList
	_ = w.client.List(ctx, &list, client.InNamespace(w.namespace))
	for _, m := range list.Items {
		fmt.Fprintf(GinkgoWriter, "DUMP %s %v del=%v\n", m.Name, m.Annotations, m.DeletionTimestamp)
		for _, c := range m.Status.Conditions {
			fmt.Fprintf(GinkgoWriter, "DUMP    %s %s %s %s\n", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	for n, h := range w.hosts(ctx) {
		fmt.Fprintf(GinkgoWriter, "DUMP host %s %v %s rv=%s\n", n, h.Spec.ConsumerRef, h.Status.Provisioning.State, h.ResourceVersion)
	}
}
