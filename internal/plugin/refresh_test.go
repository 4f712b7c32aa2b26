package plugin

import (
	"slices"
	"testing"
	"time"

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
	hours := metav1.NewTime(now.Add(-time.Hour))
	all := []string{settings, components, subscription, "Deployment /bmo"}
	for name, tc := range map[string]struct {
		reason     string
		host       *bmov1alpha1.BareMetalHost
		created    metav1.Time
		reconciled bool
		operators  []int32
		want       []string
		refused    []pivot.Code
	}{
		"Runs":       {"BMO has not looked since the move", build.Host("host", build.Provisioned()), now, false, []int32{1}, all, nil},
		"Reconciled": {"BMO has reconciled all", build.Host("host", build.Provisioned()), now, true, []int32{1}, nil, nil},
		"Old":        {"BMO writes no status for its firmware", build.Host("host", build.Provisioned()), hours, false, []int32{1}, []string{subscription}, nil},
		"Arrives":    {"BMO reconciles it when it runs", build.Host("host", build.Provisioned(), paused), now, false, []int32{1}, nil, []pivot.Code{pivot.CodeHostPaused}},
		"NoStatus":   {"BMO has not restored the status yet", build.Host("host"), now, false, []int32{1}, nil, []pivot.Code{pivot.CodeHostBusy}},
		"ByUser":     {"a user paused it", build.Host("host", build.Provisioned(), build.Paused("")), now, false, []int32{1}, nil, nil},
		"Detached":   {"BMO does not manage it", build.Host("host", build.Provisioned(), detached), now, false, []int32{1}, nil, nil},
		"Gone":       {"the host was deleted", build.Host("other", build.Provisioned()), now, false, []int32{1}, nil, nil},
		"Down":       {"a restart starts no BMO", build.Host("host", build.Provisioned()), now, false, []int32{0}, all, []pivot.Code{pivot.CodeOperatorDown}},
		"Unknown":    {"BMO runs without its label", build.Host("host", build.Provisioned()), now, false, nil, all[:3], []pivot.Code{pivot.CodeOperatorMissing}},
	} {
		around := &scope{sight: &sight{hosts: []*bmov1alpha1.BareMetalHost{tc.host}}}
		for _, available := range tc.operators {
			around.operators = append(around.operators, operator{Deployment: &appsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{Name: "bmo"}, Status: appsv1.DeploymentStatus{AvailableReplicas: available},
			}})
		}
		meta := metav1.ObjectMeta{Name: "host", CreationTimestamp: tc.created}
		firmware := bmov1alpha1.HostFirmwareSettings{ObjectMeta: meta}
		parts := bmov1alpha1.HostFirmwareComponents{ObjectMeta: meta}
		events := bmov1alpha1.BMCEventSubscription{ObjectMeta: metav1.ObjectMeta{Name: "events"}}
		events.Spec.HostName = "host"
		if tc.reconciled {
			firmware.Status.LastUpdated = &now
			parts.Status.Conditions = []metav1.Condition{{Type: "Valid"}}
			events.Status.SubscriptionID = "1"
		}
		late, refusals := refreshable(around, now.Time, []bmov1alpha1.HostFirmwareSettings{firmware},
			[]bmov1alpha1.HostFirmwareComponents{parts}, []bmov1alpha1.BMCEventSubscription{events})
		if got := late.intent().objects; !slices.Equal(got, tc.want) || !slices.Equal(codesOf(refusals), tc.refused) {
			t.Errorf("%s: %s: got %v, %v", name, tc.reason, got, refusals)
		}
	}
}
