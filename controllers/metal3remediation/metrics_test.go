package metal3remediation

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/metrics"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

func TestRemediationCollector(t *testing.T) {
	request := func(name string, phase infrav1.RemediationPhase, reason string) *infrav1.Metal3Remediation {
		request := &infrav1.Metal3Remediation{ObjectMeta: metav1.ObjectMeta{Namespace: "metal3", Name: name}}
		request.Status.Phase = phase
		request.Status.Conditions = []metav1.Condition{{Type: infrav1.ReadyCondition, Reason: reason}}
		return request
	}
	requests := fake.NewClientBuilder().WithScheme(build.Scheme()).WithObjects(
		request("a", infrav1.RemediationRunning, infrav1.PoweringOffReason),
		request("b", infrav1.RemediationRunning, infrav1.PoweringOffReason),
		request("c", "", infrav1.ManagementClusterAtRiskReason),
		&infrav1.Metal3Remediation{ObjectMeta: metav1.ObjectMeta{Namespace: "metal3", Name: "new"}},
	).Build()
	const want = `
# HELP metal3_remediations Metal3Remediations by namespace, phase and reason of the condition Ready.
# TYPE metal3_remediations gauge
metal3_remediations{namespace="metal3",phase="",reason=""} 1
metal3_remediations{namespace="metal3",phase="",reason="ManagementClusterAtRisk"} 1
metal3_remediations{namespace="metal3",phase="Running",reason="PoweringOff"} 2
`
	if err := testutil.CollectAndCompare(metrics.Collector(requests, remediationsGauge()), strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	broken := interceptor.NewClient(requests, interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("the cache stops")
		},
	})
	if err := testutil.CollectAndCompare(metrics.Collector(broken, remediationsGauge()), strings.NewReader("")); err != nil {
		t.Errorf("after a failed read: %v", err)
	}
}
