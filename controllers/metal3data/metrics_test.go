package metal3data

import (
	"context"
	"errors"
	"strings"
	"testing"

	metal3ipamv1 "github.com/metal3-io/ip-address-manager/api/v1alpha1"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

func TestDataCollector(t *testing.T) {
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "metal3", Name: name} }
	ready := func(reason string) []metav1.Condition {
		return []metav1.Condition{{Type: infrav1.ReadyCondition, Reason: reason}}
	}
	data := func(name, reason string) *infrav1.Metal3Data {
		return &infrav1.Metal3Data{ObjectMeta: named(name), Status: infrav1.Metal3DataStatus{Conditions: ready(reason)}}
	}
	owned := func(name string) metav1.ObjectMeta {
		owned := named(name)
		owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: infrav1.GroupVersion.String(), Kind: "Metal3Data", UID: "1"}}
		return owned
	}
	ipClaim := func(meta metav1.ObjectMeta, pool string, status metal3ipamv1.IPClaimStatus) *metal3ipamv1.IPClaim {
		claim := &metal3ipamv1.IPClaim{ObjectMeta: meta, Status: status}
		claim.Spec.Pool.Name = pool
		return claim
	}
	contract := &ipamv1.IPAddressClaim{ObjectMeta: owned("contract")}
	contract.Spec.PoolRef = ipamv1.IPPoolReference{APIGroup: "ipam.cluster.x-k8s.io", Kind: "InClusterIPPool", Name: "pool"}
	contract.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse}}
	objects := fake.NewClientBuilder().WithScheme(build.Scheme()).WithObjects(
		data("a", infrav1.RenderingFailedReason), data("b", "Ready"), data("c", "Ready"),
		&infrav1.Metal3Data{ObjectMeta: named("new")},
		&infrav1.Metal3DataClaim{ObjectMeta: named("x"), Status: infrav1.Metal3DataClaimStatus{Conditions: ready(infrav1.TemplateMissingReason)}},
		ipClaim(owned("allocated"), "pool", metal3ipamv1.IPClaimStatus{Address: &corev1.ObjectReference{Name: "x"}}),
		ipClaim(owned("failed"), "pool", metal3ipamv1.IPClaimStatus{ErrorMessage: ptr.To("Exhausted IP Pools")}),
		ipClaim(owned("waiting"), "pool", metal3ipamv1.IPClaimStatus{}),
		ipClaim(named("of-a-user"), "pool", metal3ipamv1.IPClaimStatus{}),
		contract,
	).Build()

	const alone = `
# HELP metal3_data Metal3Data by namespace and reason of the condition Ready.
# TYPE metal3_data gauge
metal3_data{namespace="metal3",reason=""} 1
metal3_data{namespace="metal3",reason="Ready"} 2
metal3_data{namespace="metal3",reason="RenderingFailed"} 1
# HELP metal3_data_claims Metal3DataClaims by namespace and reason of the condition Ready.
# TYPE metal3_data_claims gauge
metal3_data_claims{namespace="metal3",reason="Metal3DataTemplateMissing"} 1
`
	const addresses = `
# HELP metal3_data_addresses Claims of addresses of Metal3Data by namespace, pool and state.
# TYPE metal3_data_addresses gauge
metal3_data_addresses{kind="IPPool",namespace="metal3",pool="pool",state="allocated"} 1
metal3_data_addresses{kind="IPPool",namespace="metal3",pool="pool",state="failed"} 1
metal3_data_addresses{kind="IPPool",namespace="metal3",pool="pool",state="waiting"} 1
metal3_data_addresses{kind="InClusterIPPool",namespace="metal3",pool="pool",state="failed"} 1
`
	r := &Reconciler{Reporter: flow.Reporter{Client: objects}}
	if err := testutil.CollectAndCompare(r.collector(), strings.NewReader(alone)); err != nil {
		t.Errorf("without an address manager: %v", err)
	}
	synced := watched{isSynced: func() bool { return true }}
	r.watched = map[string]watched{metal3API{}.kind(): synced, clusterAPI{}.kind(): synced}
	if err := testutil.CollectAndCompare(r.collector(), strings.NewReader(alone+addresses)); err != nil {
		t.Error(err)
	}
	r.Client = interceptor.NewClient(objects, interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("the cache stops")
		},
	})
	if err := testutil.CollectAndCompare(r.collector(), strings.NewReader("")); err != nil {
		t.Errorf("after a failed read: %v", err)
	}
}
