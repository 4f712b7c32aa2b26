package plugin

import (
	"slices"
	"testing"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// TestRefreshable has the rows of refreshable. All objects are those of the host "host".
func TestRefreshable(t *testing.T) {
	detached := build.Annotations(map[string]string{bmov1alpha1.DetachedAnnotation: ""})
	paused := build.Paused(infrav1.HostPausedByProvider)
	now := metav1.Now()
	const settings, components = "HostFirmwareSettings host", "HostFirmwareComponents host"
	const subscription = "BMCEventSubscription events"
	all := []string{settings, components, subscription}
	for name, tc := range map[string]struct {
		reason     string
		host       *bmov1alpha1.BareMetalHost
		reconciled bool
		replicas   int32
		want       []string
		restarts   bool
		refused    []pivot.Code
	}{
		"Runs":       {"BMO has not looked since the move", build.Host("host", build.Provisioned()), false, 1, all, true, nil},
		"Reconciled": {"BMO has reconciled all", build.Host("host", build.Provisioned()), true, 1, nil, false, nil},
		"Arrives":    {"BMO reconciles it when it runs", build.Host("host", build.Provisioned(), paused), false, 1, nil, false, []pivot.Code{pivot.CodeHostPaused}},
		"ByUser":     {"a user paused it", build.Host("host", build.Provisioned(), build.Paused("")), false, 1, nil, false, nil},
		"Detached":   {"BMO does not manage it", build.Host("host", build.Provisioned(), detached), false, 1, nil, false, nil},
		"Gone":       {"the host was deleted", build.Host("other", build.Provisioned()), false, 1, nil, false, nil},
		"Down":       {"a restart starts no BMO", build.Host("host", build.Provisioned()), false, 0, all, true, []pivot.Code{pivot.CodeOperatorDown}},
	} {
		around := &scope{sight: &sight{hosts: []*bmov1alpha1.BareMetalHost{tc.host}}}
		around.operators = []operator{{Deployment: &appsv1.Deployment{
			Status: appsv1.DeploymentStatus{AvailableReplicas: tc.replicas},
		}}}
		firmware := bmov1alpha1.HostFirmwareSettings{ObjectMeta: metav1.ObjectMeta{Name: "host"}}
		parts := bmov1alpha1.HostFirmwareComponents{ObjectMeta: metav1.ObjectMeta{Name: "host"}}
		events := bmov1alpha1.BMCEventSubscription{ObjectMeta: metav1.ObjectMeta{Name: "events"}}
		events.Spec.HostName = "host"
		if tc.reconciled {
			firmware.Status.LastUpdated = &now
			parts.Status.Conditions = []metav1.Condition{{Type: "Valid"}}
			events.Status.SubscriptionID = "1"
		}
		late, refusals := refreshable(around, []bmov1alpha1.HostFirmwareSettings{firmware},
			[]bmov1alpha1.HostFirmwareComponents{parts}, []bmov1alpha1.BMCEventSubscription{events})
		if got := late.intent().objects; !slices.Equal(got, tc.want) || (len(late.operators) > 0) != tc.restarts ||
			!slices.Equal(codesOf(refusals), tc.refused) {
			t.Errorf("%s: %s: got %v, %d operators, %v", name, tc.reason, got, len(late.operators), refusals)
		}
	}
}
