package metal3remediation

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
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
	r, ctx := &Reconciler{Reporter: flow.Reporter{Client: c}}, t.Context()
	machine := func(name string) client.ObjectKey { return client.ObjectKeyFromObject(build.Machine(name, "cluster")) }
	for name, tc := range map[string]struct {
		got   func() []ctrl.Request
		want  string
		reads int
	}{
		"Machine":       {func() []ctrl.Request { return r.ofMachine(ctx, machine("machine-7")) }, "remediation-7", 1},
		"Metal3Machine": {func() []ctrl.Request { return r.ofMachine(ctx, machineOf(machines[7])) }, "remediation-7", 1},
		"Host": {
			func() []ctrl.Request {
				return r.ofConsumer(ctx, consumerOf(build.Host("host", build.Consumed(machines[7]))))
			}, "remediation-7", 2,
		},
		"FreeHost":     {func() []ctrl.Request { return r.ofConsumer(ctx, consumerOf(build.Host("host"))) }, "", 0},
		"OtherMachine": {func() []ctrl.Request { return r.ofMachine(ctx, machine("healthy")) }, "", 0},
	} {
		reads = 0
		got := tc.got()
		if len(got) > 1 || len(got) == 1 && got[0].Name != tc.want || len(got) == 0 && tc.want != "" || reads != tc.reads {
			t.Errorf("%s: got %v after %d objects read, want %q after %d", name, got, reads, tc.want, tc.reads)
		}
	}
}
