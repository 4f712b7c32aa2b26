package hostmove_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers/hostmove"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/hoststore"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

var (
	errAway    = errors.New("no connection")
	errChanged = apierrors.NewConflict(bmov1alpha1.GroupVersion.WithResource("baremetalhosts").GroupResource(), "host", errAway)
)

func moveClient(funcs interceptor.Funcs, objects ...client.Object) client.Client {
	return fake.NewClientBuilder().WithScheme(build.Scheme()).WithObjects(objects...).WithInterceptorFuncs(funcs).Build()
}

func moveStore(c client.Client) *hostmove.Store { return hostmove.NewStore(hoststore.New(c, c), c, c) }

func TestRecordStatus(t *testing.T) {
	paused := func(edit ...func(*bmov1alpha1.BareMetalHost)) *bmov1alpha1.BareMetalHost {
		host := build.Host("host", build.Provisioned(), build.Paused(infrav1.HostPausedByProvider))
		host.Status.OperationHistory.Register.Start = *host.Status.LastUpdated
		for _, change := range edit {
			change(host)
		}
		return host
	}
	for name, tc := range map[string]struct {
		reason string
		host   *bmov1alpha1.BareMetalHost
		funcs  interceptor.Funcs
		want   error
	}{
		"Paused": {reason: "the usual case", host: paused()},
		"Running": {
			reason: "its status goes on changing", want: hoststore.ErrConflict,
			host: paused(func(h *bmov1alpha1.BareMetalHost) { h.Annotations = nil }),
		},
		"Arrived": {
			reason: "an empty status must not replace what was brought", want: hoststore.ErrConflict,
			host: paused(func(h *bmov1alpha1.BareMetalHost) { h.Status = bmov1alpha1.BareMetalHostStatus{} }),
		},
		"Changed": {
			reason: "another writer was faster", host: paused(), want: errChanged,
			funcs: interceptor.Funcs{Patch: func(context.Context, client.WithWatch, client.Object, client.Patch,
				...client.PatchOption,
			) error {
				return errChanged
			}},
		},
		"Away": {
			reason: "the API server", host: paused(), want: errAway,
			funcs: interceptor.Funcs{Patch: func(context.Context, client.WithWatch, client.Object, client.Patch,
				...client.PatchOption,
			) error {
				return errAway
			}},
		},
		"Unread": {
			reason: "the API server", host: paused(), want: errAway,
			funcs: interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object,
				...client.GetOption,
			) error {
				return errAway
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := moveClient(tc.funcs, tc.host)
			key := client.ObjectKeyFromObject(tc.host)
			err := moveStore(c).RecordStatus(t.Context(), key, 5)
			if !errors.Is(err, tc.want) || tc.want == nil && err != nil {
				t.Fatalf("%s: got %v, want %v", tc.reason, err, tc.want)
			}
			if err != nil {
				return
			}
			var stored bmov1alpha1.BareMetalHost
			if err := c.Get(t.Context(), key, &stored); err != nil {
				t.Fatal(err)
			}
			if !pivot.Parked(&stored) || pivot.EpochOf(&stored) != 5 || stored.Annotations[bmov1alpha1.PausedAnnotation] != infrav1.HostPausedByProvider {
				t.Errorf("%s: the annotations are %v", tc.reason, stored.Annotations)
			}
		})
	}
}

func TestTenant(t *testing.T) {
	made := metav1.NewTime(time.Unix(1_700_000_000, 0))
	machine := build.Machine("machine", "cluster")
	machine.UID = "machine"
	holder := build.Metal3Machine("machine", "cluster", build.OwnedBy(machine))
	holder.CreationTimestamp = made
	held := build.Host("held", build.Consumed(holder), build.Provisioned())
	joined := machine.DeepCopy()
	joined.Status.NodeRef.Name = "node"
	leaving := holder.DeepCopy()
	leaving.Finalizers, leaving.DeletionTimestamp = []string{"x"}, &made
	published, elsewhere := holder.DeepCopy(), holder.DeepCopy()
	published.Spec.ProviderID = "metal3://" + held.Namespace + "/held/machine"
	elsewhere.Spec.ProviderID = "metal3://" + held.Namespace + "/other/machine"
	bereft := held.DeepCopy()
	bereft.Finalizers, bereft.Status = []string{bmov1alpha1.BareMetalHostFinalizer}, bmov1alpha1.BareMetalHostStatus{}
	young := build.Cluster("cluster")
	grown := young.DeepCopy()
	grown.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
	// The Machine keeps its node when the user changes the image of the host.
	again, arrived := metav1.NewTime(made.Add(time.Hour)), held.DeepCopy()
	rewritten, emptied := held.DeepCopy(), held.DeepCopy()
	rewritten.Status.OperationHistory.Provision.Start = again
	emptied.Status.OperationHistory.Provision.Start, emptied.Status.OperationHistory.Deprovision.Start = made, again
	content, err := json.Marshal(rewritten.Status)
	if err != nil {
		t.Fatal(err)
	}
	arrived.Status = bmov1alpha1.BareMetalHostStatus{}
	arrived.Annotations = map[string]string{bmov1alpha1.StatusAnnotation: string(content)}
	moved := arrived.DeepCopy()
	moved.Annotations[infrav1.StatusOriginAnnotation] = "uid-in-the-source"
	brought := holder.DeepCopy()
	brought.CreationTimestamp = metav1.NewTime(again.Add(time.Hour))
	asksAgain := hostmove.Tenant{Cluster: client.ObjectKey{Namespace: held.Namespace, Name: "cluster"}, Since: again.Time}
	node := hostmove.Tenant{Joined: true}
	asks := hostmove.Tenant{Cluster: client.ObjectKeyFromObject(grown), Since: made.Time}
	for name, tc := range map[string]struct {
		host    *bmov1alpha1.BareMetalHost
		objects []client.Object
		want    hostmove.Tenant
	}{
		"Free":              {host: build.Host("free")},
		"NoHolder":          {host: held},
		"NoMachine":         {host: held, objects: []client.Object{holder, grown}},
		"NoCluster":         {host: held, objects: []client.Object{holder, machine}},
		"NoControlPlane":    {host: held, objects: []client.Object{holder, machine, young}},
		"MayHaveJoined":     {host: held, objects: []client.Object{holder, machine, grown}, want: asks},
		"Joined":            {host: held, objects: []client.Object{holder, joined, grown}, want: node},
		"Published":         {host: held, objects: []client.Object{published, machine, young}, want: node},
		"PublishedAnother":  {host: held, objects: []client.Object{elsewhere, machine, grown}, want: asks},
		"PublishedBereft":   {host: bereft, objects: []client.Object{published, machine, grown}, want: asks},
		"JoinedBereft":      {host: bereft, objects: []client.Object{published, joined, grown}, want: node},
		"Rewritten":         {host: rewritten, objects: []client.Object{published, joined, grown}, want: asksAgain},
		"Emptied":           {host: emptied, objects: []client.Object{published, joined, grown}, want: asksAgain},
		"ArrivedRewritten":  {host: arrived, objects: []client.Object{holder, joined, grown}, want: asksAgain},
		"Moved":             {host: moved, objects: []client.Object{brought, machine, grown}, want: asksAgain},
		"RewrittenNoPlane":  {host: rewritten, objects: []client.Object{published, joined, young}, want: node},
		"BeingWiped":        {host: held, objects: []client.Object{leaving, joined, grown}},
		"BeingWipedUnknown": {host: held, objects: []client.Object{leaving, machine, grown}},
	} {
		c := moveClient(interceptor.Funcs{}, tc.objects...)
		got, err := moveStore(c).Tenant(t.Context(), tc.host)
		if err != nil || got.Joined != tc.want.Joined || got.Cluster != tc.want.Cluster || !got.Since.Equal(tc.want.Since) {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
	for _, away := range []string{"Metal3Machine", "Machine", "Cluster"} {
		c := moveClient(interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey,
			object client.Object, options ...client.GetOption,
		) error {
			if reflect.TypeOf(object).Elem().Name() == away {
				return errAway
			}
			return c.Get(ctx, key, object, options...)
		}}, holder, machine, grown)
		if _, err := moveStore(c).Tenant(t.Context(), held); !errors.Is(err, errAway) {
			t.Errorf("%s: got %v", away, err)
		}
	}
}

func TestMarkProvisioned(t *testing.T) {
	interrupted := build.Host("host", build.Provisioned(), build.State(bmov1alpha1.StateProvisioning), build.Error("gone"))
	interrupted.Status.Provisioning.Image = bmov1alpha1.Image{}
	interrupted.Status.Provisioning.ID = "uuid"
	c := fake.NewClientBuilder().WithScheme(build.Scheme()).WithObjects(interrupted).WithStatusSubresource(interrupted).Build()
	key := client.ObjectKeyFromObject(interrupted)
	var read, stored bmov1alpha1.BareMetalHost
	if err := c.Get(t.Context(), key, &read); err != nil {
		t.Fatal(err)
	}
	store := moveStore(c)
	if err := store.MarkProvisioned(t.Context(), &read); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), key, &stored); err != nil {
		t.Fatal(err)
	}
	want := read.DeepCopy()
	want.ResourceVersion = stored.ResourceVersion
	want.Status.Provisioning.State, want.Status.Provisioning.Image = bmov1alpha1.StateProvisioned, *read.Spec.Image
	want.Status.OperationalStatus, want.Status.ErrorType = bmov1alpha1.OperationalStatusOK, ""
	want.Status.ErrorMessage, want.Status.ErrorCount = "", 0
	if diff := cmp.Diff(want, &stored); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if err := store.MarkProvisioned(t.Context(), &read); !apierrors.IsConflict(err) {
		t.Errorf("from an old copy: %v", err)
	}
	away := moveClient(interceptor.Funcs{SubResourcePatch: func(context.Context, client.Client, string, client.Object,
		client.Patch, ...client.SubResourcePatchOption,
	) error {
		return errAway
	}})
	if err := moveStore(away).MarkProvisioned(t.Context(), &read); !errors.Is(err, errAway) {
		t.Errorf("got %v", err)
	}
}
