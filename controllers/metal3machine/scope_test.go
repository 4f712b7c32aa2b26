package metal3machine

import (
	"context"
	"errors"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// complete returns a scope with all preconditions of a claim.
func complete(changes ...func(*scope)) *scope {
	ready := build.Cluster("cluster", build.InfrastructureReady())
	s := &scope{
		machine:   build.Metal3Machine("machine", "cluster"),
		owner:     build.Machine("machine", "cluster"),
		cluster:   ready,
		infra:     build.Metal3Cluster("cluster"),
		bootstrap: bootstrapData{name: ptr.To("machine-bootstrap"), found: true, hasValue: true},
	}
	for _, change := range changes {
		change(s)
	}
	return s
}

func onHost(options ...build.HostOption) func(*scope) {
	return func(s *scope) { s.host = build.Host("host", options...) }
}

func deleted(s *scope) {
	now := metav1.Unix(1_700_000_000, 0)
	s.machine.DeletionTimestamp = &now
}

func TestRoute(t *testing.T) {
	r := &Reconciler{}
	noOwner := func(s *scope) { s.owner, s.cluster = nil, nil }
	with := func(providerID string) func(*scope) {
		return func(s *scope) { s.machine.Spec.ProviderID = providerID }
	}
	lost := func(s *scope) {
		with("metal3://metal3/host/machine")(s)
		setHostAnnotation(s.machine, "host")
	}
	stripped := func(s *scope) {
		lost(s)
		s.recorded = build.Host("host", build.Provisioned())
		s.recorded.Spec.Image = &bmov1alpha1.Image{URL: s.machine.Spec.Image.URL, Checksum: s.machine.Spec.Image.Checksum}
		s.recorded.Spec.UserData = &corev1.SecretReference{Name: "machine-bootstrap", Namespace: build.DefaultNamespace}
	}
	release := []string{"releaseHost", "releaseSurplus", "releaseData", "DropFinalizer"}
	acquire := []string{
		"waitForOwner", "KeepFinalizer", "waitForHostDeletion", "waitForInfrastructure", "waitForBootstrapData", "checkSpec",
		"injectEndpoint", "requireSecrets", "claimHost", "releaseSurplus", "claimData", "waitForData", "provisionHost", "linkNode",
	}
	run := []string{"KeepFinalizer", "recordHost", "releaseSurplus", "claimData", "provisionHost", "linkNode"}
	reclaim := func(then []string) []string { return append([]string{"reclaimHost"}, then...) }
	synced := func(s *scope) {
		s.infra.Annotations = map[string]string{infrav1.LabelSyncPrefixesAnnotation: "rack.example.com"}
	}
	cases := map[string]struct {
		reason string
		scope  *scope
		want   []string
	}{
		"Paused":      {"a pause stops all stages", complete(func(s *scope) { s.pause = "paused" }), nil},
		"BothPaused":  {"also those of a deletion", complete(deleted, func(s *scope) { s.pause = "paused" }), nil},
		"Deleted":     {"the release", complete(deleted), release},
		"DeletedLate": {"a release requires no owner", complete(deleted, noOwner), release},
		"DeletedStripped": {
			"a host without consumerRef is claimed again before its release", complete(deleted, stripped), reclaim(release),
		},
		"NoOwner": {"the first stage waits for the owner", complete(noOwner), acquire},
		"Normal":  {"all stages", complete(), acquire},
		"Claimed": {"a host without an image", complete(onHost(build.Available())), acquire},
		"Running": {"a host with its image", complete(onHost(build.Provisioned())), run},
		"Synced": {
			"labels do not wait for the link", complete(onHost(build.Provisioned()), synced),
			slices.Insert(slices.Clone(run), len(run)-1, "syncLabels"),
		},
		"RunningNoOwner": {
			"the machine keeps its host", complete(onHost(build.Provisioned()), noOwner), []string{"recordHost", "waitForOwner"},
		},
		"Lost": {
			"no other host is claimed", complete(lost), []string{"waitForOwner", "KeepFinalizer", "reportLostHost"},
		},
		"LostWithoutAnnotation": {
			"the provider ID names the host", complete(with("metal3://metal3/host/machine")),
			[]string{"waitForOwner", "KeepFinalizer", "reportLostHost"},
		},
		"PresetProviderID":    {"another machine published it", complete(with("metal3://metal3/host/other")), acquire},
		"ForeignProviderID":   {"a machine of another namespace published it", complete(with("metal3://b/host/machine")), acquire},
		"ProviderIDWithAnUID": {"it names no host", complete(with("metal3://4a52b0e2-1d9c-4b46-9d5f-3f1c2f4f1a11")), acquire},
		"Stripped":            {"the recorded host is claimed again", complete(stripped), reclaim(run)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, stageNames(r.route(tc.scope))); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// methodName matches the name of a method value, and of a closure in a method.
var methodName = regexp.MustCompile(`\.(\w+)(-fm|\.func\d+)$`)

// stageNames returns the names of the methods that the stages run, or that return them.
func stageNames(stages []flow.Stage[*scope]) []string {
	var names []string
	for _, stage := range stages {
		name := runtime.FuncForPC(reflect.ValueOf(stage.Run).Pointer()).Name()
		names = append(names, methodName.FindStringSubmatch(name)[1])
	}
	return names
}

// TestWaitForOwners has the waits that the story about preconditions does not have, and the requeues.
func TestWaitForOwners(t *testing.T) {
	cases := map[string]struct {
		reason string
		scope  *scope
		secret func(*corev1.Secret)
		want   string
	}{
		"Nothing": {reason: "nothing is missing", scope: complete()},
		"InfrastructureRef": {
			reason: "a Cluster may have no infrastructureRef yet",
			scope: complete(func(s *scope) {
				s.infra, s.cluster.Spec.InfrastructureRef = nil, clusterv1.ContractVersionedObjectReference{}
			}), want: infrav1.WaitingForMetal3ClusterReason,
		},
		"Secret": {
			reason: "the Secret does not exist", scope: complete(), secret: func(secret *corev1.Secret) { secret.Name = "other" },
			want: infrav1.WaitingForBootstrapDataReason,
		},
		"Value": {
			reason: "a Secret without data requires a correction", scope: complete(),
			secret: func(secret *corev1.Secret) { secret.Data = nil }, want: infrav1.BootstrapDataInvalidReason,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			secret := build.BootstrapSecret("machine", build.CloudConfig, []byte("#cloud-config"))
			if tc.secret != nil {
				tc.secret(secret)
			}
			stored := fake.NewClientBuilder().WithScheme(build.Scheme()).WithObjects(secret).Build()
			r := &Reconciler{Secrets: stored, Live: stored}
			var got outcome.Outcome
			for _, stage := range []func(context.Context, *scope) (outcome.Outcome, error){
				r.waitForOwner, r.waitForInfrastructure, r.waitForBootstrapData,
			} {
				var err error
				if got, err = stage(context.Background(), tc.scope); err != nil {
					t.Fatal(err)
				}
				if !got.IsDone() {
					break
				}
			}
			if got.Reason != tc.want || got.IsBlocked() != (tc.want == infrav1.BootstrapDataInvalidReason) {
				t.Errorf("%s: got %+v, want %q", tc.reason, got, tc.want)
			}
			if (got.After > 0) != (tc.secret != nil) {
				t.Errorf("%s: requeues after %s; only a Secret without a label causes no event", tc.reason, got.After)
			}
		})
	}
}

func TestOwnsData(t *testing.T) {
	machine := build.Metal3Machine("machine", "cluster")
	machine.UID = "machine"
	predecessor := machine.DeepCopy()
	predecessor.UID = "predecessor"
	cases := map[string]struct {
		reason  string
		owner   *infrav1.Metal3Machine
		deleted bool
		kept    bool
		want    bool
	}{
		"Own":          {"the machine has created it", machine, false, true, true},
		"OwnUnkept":    {"a finalizer matters only during a deletion", machine, false, false, true},
		"Deleted":      {"its data exists until the machine removes the finalizer", machine, true, true, true},
		"Leaving":      {"its index may go to another machine", machine, true, false, false},
		"Predecessors": {"a machine of the same name was deleted", predecessor, true, true, false},
		"Others":       {"another machine controls it", predecessor, false, true, false},
		"Nobodys":      {"a user has created it", nil, false, true, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			claim := &infrav1.Metal3DataClaim{}
			if tc.owner != nil {
				build.OwnedBy(tc.owner)(claim)
			}
			if tc.deleted {
				claim.DeletionTimestamp = &metav1.Time{Time: time.Unix(1_700_000_000, 0)}
			}
			if tc.kept {
				claim.Finalizers = []string{infrav1.MachineFinalizer}
			}
			if got := ownsData(machine, claim); got != tc.want {
				t.Errorf("%s: got %t, want %t", tc.reason, got, tc.want)
			}
		})
	}
}

func TestReuseOwner(t *testing.T) {
	controlPlane := func(group, name string) func(*scope) {
		return func(s *scope) {
			s.owner.OwnerReferences = []metav1.OwnerReference{
				{APIVersion: "v1", Kind: "ConfigMap", Name: "other"},
				{APIVersion: group + "/v1", Kind: "AnyControlPlane", Name: name},
			}
		}
	}
	deployment := func(name string) func(*scope) {
		return func(s *scope) { s.owner.Labels[clusterv1.MachineDeploymentNameLabel] = name }
	}
	control, workers := controlPlane(controlPlaneGroup, "control"), deployment("workers")
	long := strings.Repeat("x", validation.LabelValueMaxLength)
	cases := map[string]struct {
		reason string
		scope  *scope
		want   string
	}{
		"NoOwner":      {"a Machine without an owner is not replaced", complete(), ""},
		"NoMachine":    {"the Machine does not exist", complete(func(s *scope) { s.owner = nil }), ""},
		"ControlPlane": {"any kind of control plane", complete(control), "cp-control"},
		"OtherGroup":   {"other owners have no effect", complete(controlPlane("example.com", "control")), ""},
		"Deployment":   {"a worker belongs to its deployment", complete(workers), "md-workers"},
		"Both":         {"the control plane has precedence", complete(workers, control), "cp-control"},

		"LongestThatFits":  {"the maximum length of a label value", complete(deployment(long[3:])), "md-" + long[3:]},
		"TooLong":          {"the hash replaces the name", complete(deployment(long[2:])), "hash_izoUSQ_z"},
		"AnotherTooLong":   {"another name has another hash", complete(deployment(long)), "hash_btP6QQ_z"},
		"LongControlPlane": {"another kind has another hash", complete(controlPlane(controlPlaneGroup, long)), "hash_Bm100w_z"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := tc.scope.reuseOwner()
			if got != tc.want {
				t.Errorf("%s: got %q, want %q", tc.reason, got, tc.want)
			}
			if problems := validation.IsValidLabelValue(got); len(problems) > 0 {
				t.Errorf("%q is not a valid label value: %v", got, problems)
			}
		})
	}
}

func TestCurrentTemplate(t *testing.T) {
	owner := func(apiVersion, kind string, spec map[string]any) *unstructured.Unstructured {
		found := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind, "spec": spec}}
		found.SetNamespace(build.DefaultNamespace)
		found.SetName("owner")
		return found
	}
	control := func(spec map[string]any) *unstructured.Unstructured {
		return owner(controlPlaneGroup+"/v1", "AnyControlPlane", spec)
	}
	reference := map[string]any{"infrastructureRef": map[string]any{"name": "now"}}
	workers := func() *unstructured.Unstructured {
		return owner(clusterv1.GroupVersion.String(), "MachineDeployment",
			map[string]any{"template": map[string]any{"spec": reference}})
	}
	leaving := func(owner *unstructured.Unstructured) *unstructured.Unstructured {
		owner.SetFinalizers([]string{"example.com/stays"})
		owner.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(0, 0)})
		return owner
	}
	cases := map[string]struct {
		reason string
		worker bool
		err    error
		found  *unstructured.Unstructured
		want   string
	}{
		"Worker":        {reason: "the next machine is made from it", worker: true, found: workers(), want: "now"},
		"WorkersLeave":  {reason: "the MachineDeployment replaces no machine", worker: true, found: leaving(workers())},
		"WorkersGone":   {reason: "the MachineDeployment does not exist", worker: true},
		"ControlLeaves": {reason: "the control plane replaces no machine", found: leaving(control(reference))},
		"ControlGone":   {reason: "the control plane does not exist"},
		"NotServed":     {reason: "the kind of the control plane was removed", err: &meta.NoKindMatchError{}},
		"V1Beta2":       {"contract v1beta2", false, nil, control(map[string]any{"machineTemplate": map[string]any{"spec": reference}}), "now"},
		"V1Beta1":       {"contract v1beta1", false, nil, control(map[string]any{"machineTemplate": reference}), "now"},
		"Flat":          {"control planes with one template", false, nil, control(reference), "now"},
		"Elsewhere":     {"an unknown type of control plane", false, nil, control(map[string]any{"x": "y"}), "cloned-from"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			live := fake.NewClientBuilder()
			if tc.found != nil {
				live = live.WithObjects(tc.found)
			}
			if tc.err != nil {
				live = live.WithInterceptorFuncs(interceptor.Funcs{
					Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
						return tc.err
					},
				})
			}
			s := complete(func(s *scope) {
				s.machine.Annotations = map[string]string{clusterv1.TemplateClonedFromNameAnnotation: "cloned-from"}
				if tc.worker {
					s.owner.Labels = map[string]string{clusterv1.MachineDeploymentNameLabel: "owner"}
				} else {
					s.owner.OwnerReferences = []metav1.OwnerReference{
						{APIVersion: controlPlaneGroup + "/v1", Kind: "AnyControlPlane", Name: "owner"},
					}
				}
			})
			got, err := (&Reconciler{Live: live.Build()}).currentTemplate(context.Background(), s)
			if err != nil {
				t.Fatal(err)
			}
			if got != tc.want {
				t.Errorf("%s: got %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}

func TestDataSecrets(t *testing.T) {
	own := func(name string) *corev1.SecretReference {
		return &corev1.SecretReference{Name: name, Namespace: "ignored"}
	}
	want := func(name string) *corev1.SecretReference {
		return &corev1.SecretReference{Name: name, Namespace: build.DefaultNamespace}
	}
	template := func(s *scope) { s.machine.Spec.DataTemplate = &infrav1.Metal3ObjectRef{Name: "template"} }
	rendered := func(ready *bool) func(*scope) {
		return func(s *scope) {
			s.data = &infrav1.Metal3Data{
				Spec:   infrav1.Metal3DataSpec{MetaData: own("rendered-meta"), NetworkData: own("rendered-network")},
				Status: infrav1.Metal3DataStatus{Ready: ready},
			}
		}
	}
	ownNetwork := func(s *scope) { s.machine.Spec.NetworkData = own("network") }
	cases := map[string]struct {
		reason                string
		scope                 *scope
		metaData, networkData *corev1.SecretReference
		ready                 bool
	}{
		"Nothing":   {reason: "no data template", scope: complete(), ready: true},
		"Own":       {reason: "own data, in the own namespace", scope: complete(ownNetwork), networkData: want("network"), ready: true},
		"Waiting":   {reason: "the data does not exist yet", scope: complete(template, ownNetwork)},
		"NotReady":  {reason: "the Secrets do not exist yet", scope: complete(template, rendered(nil))},
		"StillNot":  {reason: "the Secrets do not exist yet", scope: complete(template, rendered(ptr.To(false)))},
		"Rendered":  {"both", complete(template, rendered(ptr.To(true))), want("rendered-meta"), want("rendered-network"), true},
		"SpecFirst": {"the spec has precedence", complete(template, rendered(ptr.To(true)), ownNetwork), want("rendered-meta"), want("network"), true},
		"NoTemplate": {
			reason: "the data of an earlier template has no effect", scope: complete(rendered(ptr.To(true))), ready: true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			metaData, networkData, ready := dataSecrets(tc.scope)
			if diff := cmp.Diff(
				[]any{tc.metaData, tc.networkData, tc.ready}, []any{metaData, networkData, ready}); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestReportLostHost(t *testing.T) {
	cases := map[string]struct {
		host *bmov1alpha1.BareMetalHost
		want string
	}{
		"Gone": {nil, "BareMetalHost host no longer exists. Restore it, or delete Machine machine to replace it."},
		"Taken": {
			build.Host("host", build.Consumed(build.Metal3Machine("other", "cluster"))),
			"BareMetalHost host has another consumer, Metal3Machine other. Correct spec.consumerRef, or delete Machine machine " +
				"to replace it.",
		},
		"Empty": {
			build.Host("host"), "BareMetalHost host has no consumer, and another image or user data than the machine. " +
				"Restore them, or delete Machine machine to replace it.",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := complete(func(s *scope) {
				setHostAnnotation(s.machine, "host")
				s.recorded = tc.host
			})
			got, err := (&Reconciler{}).reportLostHost(context.Background(), s)
			if want := outcome.Waiting(infrav1.HostLostReason, tc.want); err != nil || got != want {
				t.Errorf("got %+v, %v, want %+v", got, err, want)
			}
		})
	}
}

func TestRecordedHost(t *testing.T) {
	machine := build.Metal3Machine("machine", "cluster")
	expect := func(value, want string) {
		t.Helper()
		machine.Annotations = map[string]string{infrav1.HostAnnotation: value}
		if got := host.Recorded(machine); got != want {
			t.Errorf("annotation %q, provider ID %q: got %q, want %q", value, machine.Spec.ProviderID, got, want)
		}
	}
	for value, want := range map[string]string{
		"": "", "metal3/host": "host", "elsewhere/host": "host", "host": "host", "a/b/c": "b/c",
	} {
		expect(value, want)
	}
	machine.Spec.ProviderID = "metal3://metal3/published/machine"
	expect("metal3/host", "host")
	expect("", "published")
	if got := host.NamedByUser(machine); got != "" {
		t.Errorf("no user named a host in the annotation, got %q", got)
	}
}

func TestBeforeNode(t *testing.T) {
	configured := func(s *scope) { s.owner.Spec.Bootstrap.ConfigRef.Name = "config" }
	cloud := func(s *scope) { s.infra.Spec.CloudProviderEnabled = ptr.To(true) }
	cases := map[string]struct {
		reason string
		scope  *scope
		want   bool
	}{
		"Manual":     {"only this provider sets the provider ID", complete(), true},
		"Bootstrap":  {"the kubelet labels the Node", complete(configured), false},
		"Cloud":      {"the cloud provider sets the provider ID", complete(cloud), false},
		"Identified": {"it was provisioned before", complete(configured, cloud, func(s *scope) { s.machine.Spec.ProviderID = "x" }), true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := beforeNode(tc.scope); got != tc.want {
				t.Errorf("%s: got %t, want %t", tc.reason, got, tc.want)
			}
		})
	}
}

// TestReservation has a live reader that fails. A worker does not need it if its template exists without nodeReuse.
func TestReservation(t *testing.T) {
	live := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errUnavailable
		},
	}).Build()
	reusing := build.MachineTemplate("reusing")
	reusing.Spec.NodeReuse = true
	cached := fake.NewClientBuilder().WithScheme(build.SharedScheme()).WithObjects(reusing, build.MachineTemplate("plain")).Build()
	for name, tc := range map[string]struct {
		template string
		worker   bool
		want     error
	}{
		"Plain":        {"plain", true, nil},
		"Gone":         {"gone", true, errUnavailable},
		"Reusing":      {"reusing", true, errUnavailable},
		"ControlPlane": {"plain", false, errUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			s := complete(onHost(build.Provisioned()), func(s *scope) {
				s.machine.Annotations = map[string]string{clusterv1.TemplateClonedFromNameAnnotation: tc.template}
				s.owner.Labels = map[string]string{clusterv1.MachineDeploymentNameLabel: "owner"}
				if !tc.worker {
					s.owner.OwnerReferences = []metav1.OwnerReference{
						{APIVersion: controlPlaneGroup + "/v1", Kind: "AnyControlPlane", Name: "owner", Controller: ptr.To(true)},
					}
				}
			})
			got, err := (&Reconciler{Reporter: flow.Reporter{Client: cached}, Live: live}).reservation(t.Context(), s)
			if got != "" || !errors.Is(err, tc.want) {
				t.Errorf("got %q, %v, want %v", got, err, tc.want)
			}
		})
	}
}
