package metal3remediation

import (
	"context"
	"fmt"
	"testing"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// TestEventsReadTheirRemediation maps the events of one machine among 50 with a remediation, and counts what is read.
func TestEventsReadTheirRemediation(t *testing.T) {
	reads := 0
	var objects []client.Object
	var machines []*infrav1.Metal3Machine
	for i := range 50 {
		owner := build.Machine(fmt.Sprintf("machine-%d", i), "cluster")
		machine := build.Metal3Machine(fmt.Sprintf("infra-%d", i), "cluster", build.OwnedBy(owner))
		owner.Spec.InfrastructureRef.Name = machine.Name
		request := &infrav1.Metal3Remediation{}
		request.Namespace, request.Name = owner.Namespace, fmt.Sprintf("remediation-%d", i)
		build.OwnedBy(owner)(request)
		objects, machines = append(objects, owner, machine, request), append(machines, machine)
	}
	c := fake.NewClientBuilder().WithScheme(build.Scheme()).WithObjects(objects...).
		WithIndex(&infrav1.Metal3Remediation{}, machineIndex, byMachine).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
				options ...client.GetOption,
			) error {
				reads++
				return c.Get(ctx, key, object, options...)
			},
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				err := c.List(ctx, list, options...)
				reads += meta.LenList(list)
				return err
			},
		}).Build()
	r := &Reconciler{Client: c}
	for name, tc := range map[string]struct {
		mapper func(context.Context, client.Object) []ctrl.Request
		object client.Object
		want   string
		reads  int
	}{
		"Machine":       {r.ofMachine, build.Machine("machine-7", "cluster"), "remediation-7", 1},
		"Metal3Machine": {r.ofMetal3Machine, machines[7], "remediation-7", 1},
		"Host":          {r.ofHost, build.Host("host", build.Consumed(machines[7])), "remediation-7", 2},
		"FreeHost":      {r.ofHost, build.Host("host"), "", 0},
		"OtherMachine":  {r.ofMachine, build.Machine("healthy", "cluster"), "", 0},
	} {
		reads = 0
		got := tc.mapper(t.Context(), tc.object)
		if len(got) > 1 || len(got) == 1 && got[0].Name != tc.want || len(got) == 0 && tc.want != "" || reads != tc.reads {
			t.Errorf("%s: got %v after %d objects read, want %q after %d", name, got, reads, tc.want, tc.reads)
		}
	}
	if requests := r.ofHost(t.Context(), &bmov1alpha1.HostFirmwareSettings{}); requests != nil {
		t.Errorf("got %v for another kind", requests)
	}
}
