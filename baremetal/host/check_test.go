package host_test

import (
	"testing"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

const (
	machineName = "machine-0"
	clusterName = "cluster-0"
	owner       = "md-workers"
)

// edit applies changes to a host.
func edit(base *bmov1alpha1.BareMetalHost, changes ...func(*bmov1alpha1.BareMetalHost)) *bmov1alpha1.BareMetalHost {
	for _, change := range changes {
		change(base)
	}
	return base
}

func consumer(ref *corev1.ObjectReference) func(*bmov1alpha1.BareMetalHost) {
	return func(h *bmov1alpha1.BareMetalHost) { h.Spec.ConsumerRef = ref }
}

func machineRef(name string) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: infrav1.GroupVersion.String(), Kind: host.MachineKind, Namespace: build.DefaultNamespace, Name: name,
	}
}

func clusterRef(name string) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Namespace: build.DefaultNamespace, Name: name,
	}
}

// reserved reserves a host for the next machine of an owner in the Cluster of the tests.
func reserved(label string) func(*bmov1alpha1.BareMetalHost) {
	return func(h *bmov1alpha1.BareMetalHost) {
		metav1.SetMetaDataLabel(&h.ObjectMeta, infrav1.NodeReuseLabel, label)
		h.Spec.ConsumerRef = clusterRef(clusterName)
	}
}

func image(h *bmov1alpha1.BareMetalHost) { h.Spec.Image = &bmov1alpha1.Image{URL: build.ImageURL} }

func beingDeleted(h *bmov1alpha1.BareMetalHost) {
	now := metav1.Unix(1_700_000_000, 0)
	h.DeletionTimestamp = &now
}

func available(name string, options ...build.HostOption) *bmov1alpha1.BareMetalHost {
	return build.Host(name, append([]build.HostOption{build.Available()}, options...)...)
}

func wanted(changes ...func(*host.Wanted)) host.Wanted {
	wants := host.Wanted{Machine: machineName, Namespace: build.DefaultNamespace, Cluster: clusterName}
	for _, change := range changes {
		change(&wants)
	}
	return wants
}

func owned(w *host.Wanted) { w.Owner = owner }

func inRackB(w *host.Wanted) { w.Selector = labels.SelectorFromSet(labels.Set{"rack": "b"}) }

func domain(name string, strict bool) func(*host.Wanted) {
	return func(w *host.Wanted) { w.FailureDomain, w.Strict = name, strict }
}

func annotated(key, value string) build.ObjectOption {
	return build.Annotations(map[string]string{key: value})
}

func TestCheck(t *testing.T) {
	bare := func(changes ...func(*bmov1alpha1.BareMetalHost)) *bmov1alpha1.BareMetalHost {
		return edit(available("host-0"), changes...)
	}
	cases := map[string]struct {
		host    *bmov1alpha1.BareMetalHost
		assumed bool
		wanted  host.Wanted
		want    host.Reason
	}{
		"an available host passes":                        {host: bare()},
		"a host in the old state ready passes":            {host: bare(state(bmov1alpha1.StateReady))},
		"a host that is being deleted fails":              {host: bare(beingDeleted), want: host.BeingDeleted},
		"a host that this process is claiming is claimed": {host: bare(), assumed: true, want: host.Claimed},
		"a host of another machine is claimed":            {host: bare(consumer(machineRef("other"))), want: host.Claimed},
		"a host of this machine counts as claimed as well": {
			host: bare(consumer(machineRef(machineName))), want: host.Claimed,
		},
		"a host of an unknown consumer is claimed": {
			host: bare(consumer(&corev1.ObjectReference{Kind: "Thing"})), want: host.Claimed,
		},
		"a host of a Cluster without a label is claimed": {
			host: bare(consumer(clusterRef(clusterName))), wanted: wanted(owned), want: host.Claimed,
		},
		"a host that is reserved for another owner fails": {
			host: bare(reserved("md-other")), wanted: wanted(owned), want: host.Reserved,
		},
		"a machine without an owner gets no reserved host": {host: bare(reserved(owner)), want: host.Reserved},
		"a host that is reserved for the owner passes":     {host: bare(reserved(owner)), wanted: wanted(owned)},
		"a label for another owner reserves without consumer": {
			host: bare(reserved("md-other"), consumer(nil)), wanted: wanted(owned), want: host.Reserved,
		},
		"a label for the owner passes without consumer": {host: bare(reserved(owner), consumer(nil)), wanted: wanted(owned)},
		"a reservation of the same owner name in another cluster does not fit": {
			host: bare(reserved(owner), consumer(clusterRef("other"))), wanted: wanted(owned), want: host.Reserved,
		},
		"a label does not release a claimed host": {
			host: bare(reserved(owner), consumer(machineRef("other"))), wanted: wanted(owned), want: host.Claimed,
		},
		"a host without the selected label does not match": {host: bare(), wanted: wanted(inRackB), want: host.NotMatching},
		"a host with the selected label passes": {
			host: available("host-0", build.Labels(map[string]string{"rack": "b"})), wanted: wanted(inRackB),
		},
		"another failure domain fails for a strict machine": {
			host: available("host-0", build.InDomain("a")), wanted: wanted(domain("b", true)), want: host.OtherFailureDomain,
		},
		"no failure domain fails for a strict machine": {
			host: bare(), wanted: wanted(domain("b", true)), want: host.OtherFailureDomain,
		},
		"the failure domain of a strict machine passes": {
			host: available("host-0", build.InDomain("b")), wanted: wanted(domain("b", true)),
		},
		"any host passes for a strict machine without a failure domain": {
			host: available("host-0", build.InDomain("a")), wanted: wanted(domain("", true)),
		},
		"other failure domains pass for a machine that is not strict": {
			host: available("host-0", build.InDomain("a")), wanted: wanted(domain("b", false)),
		},
		"a host that a user paused is paused": {
			host: available("host-0", build.Paused("user")), want: host.Paused,
		},
		"a pause without a value is a pause": {host: available("host-0", build.Paused("")), want: host.Paused},
		"a host that the provider paused is paused": {
			host: available("host-0", build.Paused(infrav1.HostPausedByProvider)), want: host.Paused,
		},
		"a host to be detached is detached": {
			host: available("host-0", annotated(bmov1alpha1.DetachedAnnotation, "")), want: host.Detached,
		},
		"a host that is detached is detached": {
			host: bare(operational(bmov1alpha1.OperationalStatusDetached)), want: host.Detached,
		},
		"an unhealthy host fails": {
			host: available("host-0", annotated(infrav1.UnhealthyAnnotation, "")), want: host.Unhealthy,
		},
		"the deprecated annotation of unhealthy hosts has the same effect": {
			host: available("host-0", annotated(infrav1.DeprecatedUnhealthyAnnotation, "")), want: host.Unhealthy,
		},
		"a host with an error message is in error": {
			host: bare(func(h *bmov1alpha1.BareMetalHost) { h.Status.ErrorMessage = "no power" }), want: host.InError,
		},
		"a host with the status error is in error": {
			host: bare(operational(bmov1alpha1.OperationalStatusError)), want: host.InError,
		},
		"an externally provisioned host fails": {
			host: bare(func(h *bmov1alpha1.BareMetalHost) { h.Spec.ExternallyProvisioned = true }),
			want: host.ExternallyProvisioned,
		},
		"a host with an image of the user is in use": {host: bare(image), want: host.InUse},
		"a host with a deploy step of the user is in use": {
			host: bare(func(h *bmov1alpha1.BareMetalHost) { h.Spec.CustomDeploy = &bmov1alpha1.CustomDeploy{Method: "x"} }),
			want: host.InUse,
		},
		"a reserved host may still have its image": {host: bare(reserved(owner), image), wanted: wanted(owned)},
		"a host that is being inspected is not available yet": {
			host: bare(state(bmov1alpha1.StateInspecting)), want: host.NotAvailable,
		},
		"a host that BMO has not reconciled is not available yet": {
			host: build.Host("host-0"), want: host.NotAvailable,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.wanted.Machine == "" {
				tc.wanted = wanted()
			}
			if got := host.Check(host.Candidate{Host: tc.host, Assumed: tc.assumed}, tc.wanted); got != tc.want {
				t.Errorf("got reason %q, want %q", got, tc.want)
			}
		})
	}
}

func state(is bmov1alpha1.ProvisioningState) func(*bmov1alpha1.BareMetalHost) {
	return func(h *bmov1alpha1.BareMetalHost) { h.Status.Provisioning.State = is }
}

func operational(is bmov1alpha1.OperationalStatus) func(*bmov1alpha1.BareMetalHost) {
	return func(h *bmov1alpha1.BareMetalHost) { h.Status.OperationalStatus = is }
}

// TestCheckOrder starts with a host that fails every check, repairs one problem after the other and expects the next
// reason. Permanent reasons come before temporary ones.
func TestCheckOrder(t *testing.T) {
	now := metav1.NewTime(time.Unix(1_700_000_000, 0))
	broken := build.Host("host-0", build.Error("no power"), build.Paused("user"),
		annotated(bmov1alpha1.DetachedAnnotation, ""), annotated(infrav1.UnhealthyAnnotation, ""))
	edit(broken, reserved("md-other"), consumer(machineRef("other")), image)
	broken.DeletionTimestamp = &now
	broken.Spec.ExternallyProvisioned = true
	wants := wanted(owned, inRackB, domain("b", true))

	steps := []struct {
		want   host.Reason
		repair func()
	}{
		{host.BeingDeleted, func() { broken.DeletionTimestamp = nil }},
		{host.Claimed, func() { broken.Spec.ConsumerRef = nil }},
		{host.Reserved, func() { delete(broken.Labels, infrav1.NodeReuseLabel) }},
		{host.NotMatching, func() { metav1.SetMetaDataLabel(&broken.ObjectMeta, "rack", "b") }},
		{host.OtherFailureDomain, func() { metav1.SetMetaDataLabel(&broken.ObjectMeta, infrav1.FailureDomainLabel, "b") }},
		{host.Paused, func() { delete(broken.Annotations, bmov1alpha1.PausedAnnotation) }},
		{host.Detached, func() { delete(broken.Annotations, bmov1alpha1.DetachedAnnotation) }},
		{host.Unhealthy, func() { delete(broken.Annotations, infrav1.UnhealthyAnnotation) }},
		{host.InError, func() {
			broken.Status.ErrorMessage, broken.Status.OperationalStatus = "", bmov1alpha1.OperationalStatusOK
		}},
		{host.ExternallyProvisioned, func() { broken.Spec.ExternallyProvisioned = false }},
		{host.InUse, func() { broken.Spec.Image = nil }},
		{host.NotAvailable, func() { broken.Status.Provisioning.State = bmov1alpha1.StateAvailable }},
		{"", func() {}},
	}
	for _, step := range steps {
		if got := host.Check(host.Candidate{Host: broken}, wants); got != step.want {
			t.Fatalf("got reason %q, want %q", got, step.want)
		}
		step.repair()
	}
}

func TestConsumer(t *testing.T) {
	with := func(change func(*corev1.ObjectReference)) *corev1.ObjectReference {
		ref := machineRef(machineName)
		change(ref)
		return ref
	}
	cases := map[string]struct {
		ref      *corev1.ObjectReference
		consumed bool
		consumer string
		pool     bool
	}{
		"a free host has no consumer": {pool: true},
		"the consumer is the machine": {ref: machineRef(machineName), consumed: true, consumer: machineName},
		"the API version has no effect": {
			ref: with(func(r *corev1.ObjectReference) {
				r.APIVersion = "infrastructure.cluster.x-k8s.io/v1beta1"
			}),
			consumed: true, consumer: machineName,
		},
		"another machine is another consumer":  {ref: machineRef("other"), consumer: "other"},
		"another namespace is another machine": {ref: with(func(r *corev1.ObjectReference) { r.Namespace = "other" })},
		"another kind is another consumer":     {ref: with(func(r *corev1.ObjectReference) { r.Kind = "Machine" })},
		"another group is another consumer": {
			ref: with(func(r *corev1.ObjectReference) { r.APIVersion = "example.com/v1" }),
		},
		"an invalid API version":                {ref: with(func(r *corev1.ObjectReference) { r.APIVersion = "a/b/c" })},
		"a Cluster leaves the host in the pool": {ref: clusterRef(clusterName), pool: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			current := edit(available("host-0"), consumer(tc.ref))
			if got := host.ConsumedBy(current, build.DefaultNamespace, machineName); got != tc.consumed {
				t.Errorf("ConsumedBy: got %t, want %t", got, tc.consumed)
			}
			got, found := host.Consumer(current)
			if got != tc.consumer || found != (tc.consumer != "") {
				t.Errorf("Consumer: got %q, %t, want %q", got, found, tc.consumer)
			}
			if got := host.InPool(current); got != tc.pool {
				t.Errorf("InPool: got %t, want %t", got, tc.pool)
			}
		})
	}
}

func TestSuits(t *testing.T) {
	cases := map[string]struct {
		host *bmov1alpha1.BareMetalHost
		want bool
	}{
		"a host that passes": {available("host-0"), true},
		"a busy host":        {build.Host("host-0"), false},
		"a claimed host": {
			edit(available("host-0"), consumer(machineRef("other"))), false,
		},
		"a busy host that is reserved for the owner": {edit(build.Host("host-0"), reserved(owner)), true},
		"a host in error that is reserved for the owner": {
			edit(build.Host("host-0", build.Error("x")), reserved(owner)), true,
		},
		"a host that is reserved for another owner": {edit(available("host-0"), reserved("md-other")), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := host.Suits(host.Candidate{Host: tc.host}, wanted(owned)); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

func TestAltersChoice(t *testing.T) {
	busy := func() *bmov1alpha1.BareMetalHost {
		return build.Host("host-0", build.State(bmov1alpha1.StateDeprovisioning))
	}
	cases := map[string]struct {
		before *bmov1alpha1.BareMetalHost
		change func(*bmov1alpha1.BareMetalHost)
		want   bool
	}{
		"a free host with other changes": {available("host-0"), func(h *bmov1alpha1.BareMetalHost) {
			h.Spec.Description, h.Status.PoweredOn = "x", true
		}, false},
		"a busy host in another state":          {busy(), state(bmov1alpha1.StatePreparing), false},
		"a busy host that becomes available":    {busy(), state(bmov1alpha1.StateAvailable), true},
		"a free host with an error":             {available("host-0"), broken, true},
		"a busy reserved host in another state": {edit(busy(), reserved(owner)), state(bmov1alpha1.StatePreparing), true},
		"a busy reserved host with other changes": {
			edit(busy(), reserved(owner)), func(h *bmov1alpha1.BareMetalHost) { h.Spec.Description = "x" }, false,
		},
		"a host that becomes reserved":           {busy(), reserved(owner), true},
		"a host that is reserved for another":    {busy(), reserved("md-other"), true},
		"a reservation that ends on a busy host": {edit(busy(), reserved(owner)), unreserved, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			after := edit(tc.before.DeepCopy(), tc.change)
			if got := host.AltersChoice(tc.before, after, wanted(owned)); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

func broken(h *bmov1alpha1.BareMetalHost) { h.Status.ErrorMessage = "no power" }

func unreserved(h *bmov1alpha1.BareMetalHost) { h.Labels, h.Spec.ConsumerRef = nil, nil }
