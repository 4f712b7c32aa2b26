package hostsweep

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// TestADeletedRemediationRequeuesPoweredOffHosts covers that the deletion of one remediation does not read all hosts.
func TestADeletedRemediationRequeuesPoweredOffHosts(t *testing.T) {
	off, elsewhere := build.Host("off"), build.Host("elsewhere", build.InNamespace("elsewhere"))
	for _, host := range []*bmov1alpha1.BareMetalHost{off, elsewhere} {
		host.Annotations = map[string]string{infrav1.RemediationRebootPrefix + "remediation": ""}
	}
	reconciler := &Reconciler{Client: fake.NewClientBuilder().WithScheme(build.Scheme()).
		WithIndex(&bmov1alpha1.BareMetalHost{}, poweredOffIndex, byPowerOff).
		WithObjects(off, elsewhere, build.Host("on")).Build()}
	request := &infrav1.Metal3Remediation{}
	request.Namespace = off.Namespace
	got := reconciler.toPoweredOff(t.Context(), request)
	want := []ctrl.Request{{NamespacedName: client.ObjectKeyFromObject(off)}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
