package metal3cluster

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/hoststore"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/ironicapi"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/metrics"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/secrets"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/workload"
)

var errAway = errors.New("the API server is away")

// kept implements Secrets with a fixed result.
type kept struct {
	material secrets.Material
	outcome  outcome.Outcome
	err      error
}

func (k kept) Ensure(context.Context, *infrav1.Metal3Cluster, string, []*bmov1alpha1.BareMetalHost,
) (secrets.Material, outcome.Outcome, error) {
	return k.material, k.outcome, k.err
}

func (k kept) Find(context.Context, *infrav1.Metal3Cluster, string) (secrets.Material, outcome.Outcome, error) {
	return k.material, k.outcome, k.err
}

// disconnected implements ControlPlanes without connections, and Handover without a management Ironic.
type disconnected struct{}

func (disconnected) Arm(context.Context, types.NamespacedName, string, bool) error { return nil }
func (disconnected) Tell(context.Context, string, bool) error                      { return nil }
func (disconnected) Claim(context.Context, types.NamespacedName, pivot.Epoch) (pivot.Claim, pivot.Standing, error) {
	return pivot.Claim{}, "", workload.ErrUnreachable
}
func (disconnected) Read(context.Context, types.NamespacedName, string) (workload.ControlPlane, error) {
	return workload.ControlPlane{}, workload.ErrUnreachable
}

func unreachable(context.Context, ironicapi.Endpoint, *ironicapi.Observation) ironicapi.Observation {
	return ironicapi.Observation{Answer: pivot.Unreachable, Detail: "no answer"}
}

func withEndpoint(infra *infrav1.Metal3Cluster) {
	infra.Spec.Ironic = &infrav1.Ironic{
		ClusterID: "c1", Endpoint: infrav1.IronicEndpoint{
			VirtualIPs: []string{"2001:db8::2"}, CIDRs: []string{"2001:db8::/64"}, Interface: "eth0",
		},
	}
}

// reconciler returns a reconciler of a Metal3Cluster, and a client that funcs do not intercept.
func reconciler(infra *infrav1.Metal3Cluster, funcs interceptor.Funcs, keeper Secrets) (*Reconciler, client.Client) {
	cluster := build.Cluster("cluster")
	cluster.UID = "cluster"
	build.OwnedBy(cluster)(infra)
	stored := fake.NewClientBuilder().WithScheme(build.Scheme()).WithObjects(infra, cluster).
		WithStatusSubresource(infra).Build()
	watched := interceptor.NewClient(stored, funcs)
	return &Reconciler{
		Reporter: flow.Reporter{Client: watched, Recorder: events.NewFakeRecorder(10)}, Secrets: keeper,
		Endpoints: NewEndpointProber(unreachable, clock.RealClock{}, time.Second),
		Nodes:     NewNodeProber(disconnected{}, events.NewFakeRecorder(10), clock.RealClock{}, time.Second),
		Clock:     clock.RealClock{}, Hosts: hoststore.New(watched, watched), Handover: disconnected{},
	}, stored
}

func TestSecretsAreReadAgain(t *testing.T) {
	ready := kept{}
	cases := map[string]struct {
		reason string
		change func(*infrav1.Metal3Cluster)
		keeper kept
		want   time.Duration
		says   string
	}{
		"Normal":   {"no event announces a Secret of the user", withEndpoint, ready, userSecretsEvery, infrav1.NotYetObservedReason},
		"NoIronic": {"only Secrets are read", func(*infrav1.Metal3Cluster) {}, ready, 5 * time.Minute, ""},
		"Waiting": {
			"nor a Secret without a label", withEndpoint,
			kept{outcome: outcome.Waiting(infrav1.WaitingForIronicSecretReason, "")}, blockedInterval,
			infrav1.WaitingForIronicSecretReason,
		},
		"Blocked": {
			"nor its correction", withEndpoint, kept{outcome: outcome.Blocked(infrav1.IronicSecretInvalidReason, "")},
			blockedInterval, infrav1.IronicSecretInvalidReason,
		},
		"Unowned": {
			"no event announces a permission, and the endpoint is probed all the same", withEndpoint,
			kept{err: &secrets.UnownedError{Cause: errAway}}, unownedDelay, infrav1.NotYetObservedReason,
		},
		"Paused": {
			"a paused cluster is not observed", func(infra *infrav1.Metal3Cluster) {
				withEndpoint(infra)
				infra.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
			}, ready, 0, "",
		},
		"NoEndpoint": {
			"the Ironic endpoint is probed after the control-plane endpoint is set",
			func(infra *infrav1.Metal3Cluster) {
				withEndpoint(infra)
				infra.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{}
			}, ready, userSecretsEvery, infrav1.NotYetObservedReason,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			infra := build.Metal3Cluster("cluster")
			tc.change(infra)
			r, stored := reconciler(infra, interceptor.Funcs{}, tc.keeper)
			key := client.ObjectKeyFromObject(infra)
			result, err := r.Reconcile(context.Background(), ctrl.Request{NamespacedName: key})
			if err != nil || result.RequeueAfter != tc.want {
				t.Errorf("%s: got %+v, %v, want %s", tc.reason, result, err, tc.want)
			}
			if err := stored.Get(context.Background(), key, infra); err != nil {
				t.Fatal(err)
			}
			if got := conditions.GetReason(infra, infrav1.IronicEndpointReadyCondition); got != tc.says {
				t.Errorf("%s: the condition says %q, want %q", tc.reason, got, tc.says)
			}
			if ready := conditions.IsTrue(infra, infrav1.ReadyCondition); ready != (name != "Paused" && name != "NoEndpoint") {
				t.Errorf("%s: ready is %t", tc.reason, ready)
			}
		})
	}
}

// TestAPauseEndsTheWaitForASecret pauses a Metal3Cluster whose Secret has been missing for long.
func TestAPauseEndsTheWaitForASecret(t *testing.T) {
	infra := build.Metal3Cluster("cluster")
	withEndpoint(infra)
	r, stored := reconciler(infra, interceptor.Funcs{},
		kept{outcome: outcome.Waiting(infrav1.WaitingForIronicSecretReason, "")})
	now := clocktesting.NewFakePassiveClock(time.Now())
	r.Clock = now
	key := client.ObjectKeyFromObject(infra)
	pause := map[string]string{clusterv1.PausedAnnotation: ""}
	for _, step := range []struct {
		reason string
		paused map[string]string
		want   time.Duration
	}{
		{"the Secret has just been missed", nil, blockedInterval},
		{"it has been missing for an hour", nil, maxBlockedInterval},
		{"the Metal3Cluster is paused", pause, 0},
		{"the pause has ended", nil, blockedInterval},
	} {
		if err := stored.Get(t.Context(), key, infra); err != nil {
			t.Fatal(err)
		}
		infra.Annotations = step.paused
		if err := stored.Update(t.Context(), infra); err != nil {
			t.Fatal(err)
		}
		result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
		if err != nil || result.RequeueAfter != step.want {
			t.Errorf("%s: got %+v, %v, want %s", step.reason, result, err, step.want)
		}
		now.SetTime(now.Now().Add(time.Hour))
	}
}

// TestFailedRequests fails one request each. The status keeps what earlier reconciles observed.
func TestFailedRequests(t *testing.T) {
	listFails := func(fails func(client.ObjectList) bool) interceptor.Funcs {
		return interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				if fails(list) {
					return errAway
				}
				return c.List(ctx, list, options...)
			},
		}
	}
	ofKind := func(kind string) func(client.ObjectList) bool {
		return func(list client.ObjectList) bool { return list.GetObjectKind().GroupVersionKind().Kind == kind }
	}
	cases := map[string]struct {
		funcs       interceptor.Funcs
		keeper      kept
		provisioned bool
		says        string
	}{
		"Machines": {funcs: listFails(func(list client.ObjectList) bool { _, is := list.(*clusterv1.MachineList); return is })},
		"Hosts":    {funcs: listFails(func(list client.ObjectList) bool { _, is := list.(*bmov1alpha1.BareMetalHostList); return is })},
		"Clusters": {funcs: listFails(func(list client.ObjectList) bool { _, is := list.(*clusterv1.ClusterList); return is })},
		"Remediations": {funcs: listFails(func(list client.ObjectList) bool {
			_, is := list.(*infrav1.Metal3RemediationList)
			return is
		}), provisioned: true, says: "Listing Metal3Remediation objects"},
		"ClusterClasses": {funcs: listFails(ofKind("ClusterClassList")), provisioned: true, says: "Listing ClusterClass objects"},
		"Definitions": {
			funcs: listFails(ofKind("CustomResourceDefinitionList")), provisioned: true, says: "Listing CustomResourceDefinitions",
		},
		"Secrets": {funcs: listFails(ofKind("SecretList")), provisioned: true, says: "Listing Secrets"},
		"IPPools": {funcs: listFails(ofKind("IPPoolList")), provisioned: true, says: "Listing IPPools"},
		"ClusterID": {funcs: interceptor.Funcs{
			Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
				return errAway
			},
		}},
		"Secret": {keeper: kept{err: errAway}, provisioned: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			infra := build.Metal3Cluster("cluster")
			withEndpoint(infra)
			infra.Spec.Ironic.ClusterID = ""
			r, stored := reconciler(infra, tc.funcs, tc.keeper)
			key := client.ObjectKeyFromObject(infra)
			if _, err := r.Reconcile(context.Background(), ctrl.Request{NamespacedName: key}); !errors.Is(err, errAway) {
				t.Fatalf("got %v, want the error of the request", err)
			}
			if err := stored.Get(context.Background(), key, infra); err != nil {
				t.Fatal(err)
			}
			if got := ptr.Deref(infra.Status.Initialization.Provisioned, false); got != tc.provisioned {
				t.Errorf("provisioned is %t, want %t: the endpoint must not hold it up", got, tc.provisioned)
			}
			if tc.says != "" {
				onlyNotReadyForMove(t, infra, tc.says)
			}
		})
	}
}

// onlyNotReadyForMove expects the failed read in ReadyForMove. The cluster stays ready.
func onlyNotReadyForMove(t *testing.T, infra *infrav1.Metal3Cluster, says string) {
	t.Helper()
	got := conditions.Get(infra, infrav1.ReadyForMoveCondition)
	if got == nil || got.Status != metav1.ConditionFalse || got.Reason != infrav1.NotReadyForMoveReason ||
		!strings.Contains(got.Message, says) || !strings.Contains(got.Message, errAway.Error()) {
		t.Errorf("ReadyForMove is %+v, want the failed read", got)
	}
	if !conditions.IsTrue(infra, infrav1.ReadyCondition) {
		t.Errorf("Ready is %+v: a read for the move stops nothing else", conditions.Get(infra, infrav1.ReadyCondition))
	}
}

func TestNameHosts(t *testing.T) {
	infra := build.Metal3Cluster("cluster")
	withEndpoint(infra)
	s := &scope{infra: infra, cluster: build.Cluster("cluster")}
	add := func(name, cluster string, options ...build.HostOption) {
		labels := build.Labels(map[string]string{clusterv1.ClusterNameLabel: cluster})
		s.move.Hosts = append(s.move.Hosts, build.Host(name, append(options, labels)...))
	}
	add("runs", "cluster")
	add("other", "other")
	add("resumes", "cluster", build.Paused(infrav1.HostPausedByProvider))
	add("paused", "cluster", build.Paused("maintenance"))
	detached := build.Annotations(map[string]string{bmov1alpha1.DetachedAnnotation: ""})
	add("detached", "cluster", build.Available(), detached)
	add("busy", "cluster", build.State(bmov1alpha1.StateDeprovisioning), detached)
	if err := nameHosts(context.Background(), s); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"metal3~runs", "metal3~resumes", "metal3~busy"}, s.hosts); diff != "" {
		t.Errorf("only hosts that BMO keeps in Ironic can be missed there: -want +got:\n%s", diff)
	}
	infra.Status.Ironic = &infrav1.IronicStatus{KnownHosts: ptr.To[int32](3)}
	if s.missesHosts() {
		t.Error("a host that is paused or detached is missed")
	}
}

func TestAnnounceHolder(t *testing.T) {
	holder := func(kind infrav1.HolderKind, name string) *infrav1.IronicHolder {
		return &infrav1.IronicHolder{Kind: kind, Name: name}
	}
	management, node := holder(infrav1.HolderManagement, "m"), holder(infrav1.HolderControlPlane, "cp-0")
	noHolder, foreign := holder(infrav1.HolderNone, ""), holder(infrav1.HolderForeign, "other-x")
	term := func(term string) *infrav1.IronicHolder {
		return &infrav1.IronicHolder{Kind: infrav1.HolderControlPlane, Name: "cp-0", Term: term}
	}
	cases := map[string]struct {
		reason        string
		before, after *infrav1.IronicHolder
		want          string
	}{
		"Same":        {"nothing changed", management, holder(infrav1.HolderManagement, "m"), ""},
		"Restart":     {"the database has no hosts", term("1"), term("2"), "Normal IronicHolderChanged The Ironic of ControlPlane cp-0 restarted with an empty database"},
		"TermKnown":   {"Ironic reports its term for the first time", node, term("1"), ""},
		"TermUnknown": {"Ironic does not report its term this time", term("1"), node, ""},
		"Pivot":       {"the handover", management, node, "Normal IronicHolderChanged The holder of the Ironic endpoint changed to ControlPlane cp-0 from Management m"},
		"OtherNode":   {"a takeover", node, holder(infrav1.HolderControlPlane, "cp-1"), "Normal"},
		"First":       {"the first holder", nil, management, "from an unknown holder"},
		"NoneFirst":   {"a cluster that has no Ironic yet", nil, noHolder, ""},
		"Lost":        {"no Ironic answers", node, noHolder, "Warning IronicHolderChanged The holder of the Ironic endpoint changed to no Ironic from"},
		"Foreign":     {"a conflicting Ironic", node, foreign, "Warning"},
		"Unknown":     {"an unknown holder is no change", node, nil, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			recorder := events.NewFakeRecorder(1)
			s := &scope{infra: build.Metal3Cluster("cluster"), holder: tc.before}
			s.infra.Status.Ironic = &infrav1.IronicStatus{Holder: tc.after}
			(&Reconciler{Reporter: flow.Reporter{Recorder: recorder}}).announceHolder(s)
			got := ""
			select {
			case got = <-recorder.Events:
			default:
			}
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("%s: got %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}

func TestSetIronic(t *testing.T) {
	held := &infrav1.IronicHolder{Kind: infrav1.HolderManagement, Name: "m"}
	old := &infrav1.IronicStatus{Holder: held, KnownHosts: ptr.To[int32](3)}
	nodes := []infrav1.IronicNode{{Name: "cp-0"}}
	cases := map[string]struct {
		reason  string
		before  *infrav1.IronicStatus
		verdict *pivot.Verdict
		change  func(*infrav1.Metal3Cluster)
		want    *infrav1.IronicStatus
	}{
		"NotProbed": {"the last observation stays", old, nil, withEndpoint, old},
		"Seen":      {"the first probe", nil, &pivot.Verdict{Holder: held}, withEndpoint, &infrav1.IronicStatus{Holder: held}},
		"Unknown":   {"an empty status is refused", old, &pivot.Verdict{}, withEndpoint, nil},
		"Nodes": {
			"results of other tasks stay", &infrav1.IronicStatus{Holder: held, Nodes: nodes}, &pivot.Verdict{}, withEndpoint,
			&infrav1.IronicStatus{Nodes: nodes},
		},
		"Gone": {"spec.ironic is removed", old, nil, func(*infrav1.Metal3Cluster) {}, nil},
		"Deleting": {"the last observation stays", old, nil, func(infra *infrav1.Metal3Cluster) {
			withEndpoint(infra)
			infra.DeletionTimestamp = ptr.To(metav1.Unix(1_700_000_000, 0))
		}, old},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			infra := build.Metal3Cluster("cluster")
			tc.change(infra)
			infra.Status.Ironic = tc.before.DeepCopy()
			setIronic(&scope{infra: infra, verdict: tc.verdict})
			if diff := cmp.Diff(tc.want, infra.Status.Ironic); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestHoldersAreCollected(t *testing.T) {
	held, unknown := build.Metal3Cluster("held"), build.Metal3Cluster("unknown")
	held.Status.Ironic = &infrav1.IronicStatus{Holder: &infrav1.IronicHolder{Kind: infrav1.HolderControlPlane, Name: "cp-0"}}
	reader := fake.NewClientBuilder().WithScheme(build.Scheme()).WithObjects(held, unknown).Build()
	want := `# HELP metal3_ironic_holder 1 for the holder of the Ironic endpoint of a Metal3Cluster.
# TYPE metal3_ironic_holder gauge
metal3_ironic_holder{kind="ControlPlane",metal3cluster="held",name="cp-0",namespace="metal3"} 1
`
	for namespace, want := range map[string]string{"": want, build.DefaultNamespace: want, "other": ""} {
		collected := metrics.Collector(reader, holderGauge(namespace))
		if err := testutil.CollectAndCompare(collected, strings.NewReader(want)); err != nil {
			t.Errorf("namespace %q: %v", namespace, err)
		}
	}
	broken := interceptor.NewClient(reader, interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return errAway },
	})
	if err := testutil.CollectAndCompare(metrics.Collector(broken, holderGauge("")), strings.NewReader("")); err != nil {
		t.Error(err)
	}
}
