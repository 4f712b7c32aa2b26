package metal3machine

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/bootdata"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/secrets"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

const cloudConfig = "#cloud-config\nruncmd:\n- kubeadm join\n"

// injecting is a control-plane machine of a cluster with an Ironic endpoint, with its Secrets.
type injecting struct {
	scope    *scope
	client   client.WithWatch
	requests int

	// failing is the number of the request that fails, from 1. 0 means none.
	failing int
}

var errUnavailable = errors.New("the API server is away")

func (e *injecting) request() error {
	e.requests++
	if e.requests == e.failing {
		return errUnavailable
	}
	return nil
}

func newInjecting(t *testing.T, format, data string) *injecting {
	t.Helper()
	e := &injecting{scope: complete()}
	s := e.scope
	s.owner = build.ControlPlaneMachine("machine", "cluster")
	s.machine.UID, s.infra.UID = "machine", "infra"
	s.infra.Spec.Ironic = &infrav1.Ironic{
		ClusterID: "3f9c1a7e",
		Endpoint: infrav1.IronicEndpoint{
			VirtualIPs: []string{"192.0.2.2"}, CIDRs: []string{"192.0.2.0/24"}, Interface: "eth0",
		},
	}
	stored := fake.NewClientBuilder().WithScheme(build.SharedScheme()).
		WithObjects(build.BootstrapSecret("machine", format, []byte(data))).Build()
	keeper := secrets.Keeper{Client: stored, Random: rand.Reader, Clock: clock.RealClock{}, Hash: secrets.HashPassword}
	if _, kept, err := keeper.Ensure(context.Background(), s.infra, "cluster", nil); err != nil || !kept.IsDone() {
		t.Fatal(kept, err)
	}
	e.client = interceptor.NewClient(stored, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if err := e.request(); err != nil {
				return err
			}
			return c.Get(ctx, key, o, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if err := e.request(); err != nil {
				return err
			}
			return c.Create(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if err := e.request(); err != nil {
				return err
			}
			return c.Patch(ctx, o, p, opts...)
		},
	})
	return e
}

func (e *injecting) reconciler() *Reconciler {
	return &Reconciler{Reporter: flow.Reporter{Client: e.client}, Live: e.client, GuardImage: "registry.example.com/guard:v1"}
}

func (e *injecting) read(t *testing.T, name string) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{}
	if err := e.client.Get(context.Background(), client.ObjectKey{Namespace: build.DefaultNamespace, Name: name}, secret); err != nil {
		t.Fatal(err)
	}
	return secret
}

// change changes a Secret.
func (e *injecting) change(t *testing.T, name string, edit func(*corev1.Secret)) {
	t.Helper()
	secret := e.read(t, name)
	edit(secret)
	if err := e.client.Update(context.Background(), secret); err != nil {
		t.Fatal(err)
	}
}

// inject runs the stage and expects that it is done.
func (e *injecting) inject(t *testing.T) {
	t.Helper()
	e.requests = 0
	if got, err := e.reconciler().injectEndpoint(context.Background(), e.scope); err != nil || !got.IsDone() {
		t.Fatalf("got %+v, %v", got, err)
	}
}

func TestInject(t *testing.T) {
	ignition := `{"ignition":{"version":"3.4.0"}}`
	for format, data := range map[string]string{"": cloudConfig, "cloud-config": cloudConfig, "ignition": ignition} {
		t.Run("Format"+format, func(t *testing.T) {
			e := newInjecting(t, format, data)
			e.inject(t)
			if e.requests != 4 {
				t.Errorf("%d requests, want three reads and one write", e.requests)
			}
			made := e.read(t, "machine-ironic-userdata")
			moves(t, made, e.scope.machine)
			hasEndpoint(t, made, format, data)
			if reference := desiredClaim(e.scope).Provision.UserData; reference.Name != made.Name {
				t.Errorf("the host gets %s", reference.Name)
			}
			e.inject(t)
			if e.requests != 3 {
				t.Errorf("the second time takes %d requests, want three reads", e.requests)
			}
			if diff := cmp.Diff(made, e.read(t, made.Name)); diff != "" {
				t.Errorf("the second time changes it:\n%s", diff)
			}
			e.change(t, "machine-bootstrap", func(secret *corev1.Secret) { secret.Data["value"] = []byte(data + "\n") })
			e.inject(t)
			hasEndpoint(t, e.read(t, made.Name), format, data+"\n")
		})
	}
}

func moves(t *testing.T, made *corev1.Secret, owner client.Object) {
	t.Helper()
	if made.Type != clusterv1.ClusterSecretType || made.Labels[clusterv1.ClusterNameLabel] != "cluster" ||
		!metav1.IsControlledBy(made, owner) {
		t.Errorf("clusterctl move would omit the Secret: %s %v %v", made.Type, made.Labels, made.OwnerReferences)
	}
	if ptr.Deref(made.OwnerReferences[0].BlockOwnerDeletion, true) {
		t.Error("blockOwnerDeletion requires a permission that the manager does not have")
	}
}

// hasEndpoint expects bootstrap data with the endpoint in a Secret.
func hasEndpoint(t *testing.T, made *corev1.Secret, format, data string) {
	t.Helper()
	value := string(made.Data["value"])
	if string(made.Data["format"]) != format || !strings.Contains(value, "metal3-vip.yaml") {
		t.Errorf("the format is %q, the endpoint is not in the data", made.Data["format"])
	}
	plain, err := bootdata.Add([]byte(value), format, nil)
	if err != nil {
		t.Fatal(err)
	}
	// Add keeps the list of files in an Ignition config.
	if format != "ignition" && string(plain) != data {
		t.Errorf("the data of the bootstrap provider is not in it: %q", plain)
	}
}

// TestInjectSkipsOtherMachines expects no request.
func TestInjectSkipsOtherMachines(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(*scope)
		own    bool
	}{
		"Worker":   {"only the control plane runs the endpoint", func(s *scope) { s.owner = build.Machine("machine", "cluster") }, true},
		"NoIronic": {"spec.ironic is not set", func(s *scope) { s.infra.Spec.Ironic = nil }, true},
		"NoData":   {"there is no bootstrap data", func(s *scope) { s.bootstrap = bootstrapData{name: ptr.To("")} }, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			e := newInjecting(t, "", cloudConfig)
			tc.change(e.scope)
			got, err := e.reconciler().injectEndpoint(context.Background(), e.scope)
			if err != nil || !got.IsDone() || e.requests != 0 {
				t.Errorf("%s: got %+v, %v after %d requests", tc.reason, got, err, e.requests)
			}
			if reference := userData(e.scope); tc.own && reference != nil && reference.Name == userDataName(e.scope) {
				t.Errorf("%s: the host would reference a Secret that does not exist", tc.reason)
			}
		})
	}
}

func TestInjectReportsProblems(t *testing.T) {
	huge := "#cloud-config\nruncmd:\n- echo " + strings.Repeat("a", bootdata.Limit-100) + "\n"
	cases := map[string]struct {
		reason  string
		format  string
		data    string
		change  func(t *testing.T, e *injecting)
		want    string
		says    string
		blocked bool
	}{
		"Conflict": {
			reason: "two files have the same path",
			data:   "#cloud-config\nwrite_files:\n- path: /etc/kubernetes/manifests/metal3-vip.yaml\n  content: mine\n",
			want:   infrav1.BootstrapDataInvalidReason, says: "writes /etc/kubernetes/manifests/metal3-vip.yaml already", blocked: true,
		},
		"Format": {
			reason: "an unknown format", format: "talos", data: "version: v1alpha1\n",
			want: infrav1.BootstrapDataInvalidReason, says: "is not supported; supported: cloud-config", blocked: true,
		},
		"Garbage": {
			reason: "no YAML", data: "#cloud-config\n{do-not-tell\n", want: infrav1.BootstrapDataInvalidReason,
			says: "correct the bootstrap configuration", blocked: true,
		},
		"Anchor": {
			reason: "an alias without an anchor", data: "#cloud-config\npassword: *do-not-tell\n",
			want: infrav1.BootstrapDataInvalidReason, says: "unknown anchor", blocked: true,
		},
		"MediaType": {
			reason: "a MIME part without a boundary",
			data:   "MIME-Version: 1.0\nContent-Type: multipart/do-not-tell\n\necho\n",
			want:   infrav1.BootstrapDataInvalidReason, says: "has no boundary", blocked: true,
		},
		"Large": {
			reason: "the data exceeds the limit of a Secret", data: huge, want: infrav1.BootstrapDataInvalidReason, says: "would grow to", blocked: true,
		},
		"NoValue": {
			reason: "the Secret changed after the cached read", data: cloudConfig, want: infrav1.BootstrapDataInvalidReason,
			says: `no key "value"`, blocked: true,
			change: func(t *testing.T, e *injecting) {
				t.Helper()
				e.change(t, "machine-bootstrap", func(secret *corev1.Secret) { secret.Data = nil })
			},
		},
		"NoSecret": {
			reason: "the Secret was deleted after the cached read", data: cloudConfig, want: infrav1.WaitingForBootstrapDataReason,
			says: "Waiting for Secret machine-bootstrap",
			change: func(t *testing.T, e *injecting) {
				t.Helper()
				if err := e.client.Delete(context.Background(), e.read(t, "machine-bootstrap")); err != nil {
					t.Fatal(err)
				}
			},
		},
		"NoMaterial": {
			reason: "the Metal3Cluster was not reconciled yet", data: cloudConfig, want: infrav1.WaitingForIronicSecretReason,
			says: "Waiting for Secret cluster-ironic",
			change: func(t *testing.T, e *injecting) {
				t.Helper()
				if err := e.client.Delete(context.Background(), e.read(t, "cluster-ironic")); err != nil {
					t.Fatal(err)
				}
			},
		},
		"HalfMaterial": {
			reason: "the Secret is incomplete", data: cloudConfig, want: infrav1.WaitingForIronicSecretReason,
			says: "IronicEndpointReady of Metal3Cluster cluster",
			change: func(t *testing.T, e *injecting) {
				t.Helper()
				e.change(t, "cluster-ironic", func(secret *corev1.Secret) { delete(secret.Data, secrets.KeyKey) })
			},
		},
		"StrangeMaterial": {
			reason: "the Secret has no owner", data: cloudConfig, want: infrav1.WaitingForIronicSecretReason,
			says: "Waiting for Secret cluster-ironic",
			change: func(t *testing.T, e *injecting) {
				t.Helper()
				e.change(t, "cluster-ironic", func(secret *corev1.Secret) { secret.OwnerReferences = nil })
			},
		},
		"NoClusterID": {
			reason: "the clusterID is missing", data: cloudConfig, want: infrav1.WaitingForIronicSecretReason,
			says:   "Waiting for Secret cluster-ironic",
			change: func(_ *testing.T, e *injecting) { e.scope.infra.Spec.Ironic.ClusterID = "" },
		},
		"Endpoint": {
			reason: "a certificate for another address", data: cloudConfig, want: infrav1.IronicEndpointInvalidReason,
			says: "Correct spec.ironic of Metal3Cluster cluster or Secret cluster-ironic", blocked: true,
			change: func(_ *testing.T, e *injecting) {
				e.scope.infra.Spec.Ironic.Endpoint.VirtualIPs = []string{"192.0.2.9"}
			},
		},
		"Path": {
			reason: "the path is invalid in bootstrap data", data: cloudConfig, want: infrav1.IronicEndpointInvalidReason,
			says: "Correct spec.ironic", blocked: true,
			change: func(_ *testing.T, e *injecting) {
				e.scope.infra.Spec.Ironic.ManifestsDirectory = "/a{b"
			},
		},
		"Taken": {
			reason: "the Secret has another owner", data: cloudConfig, want: infrav1.BootstrapDataInvalidReason,
			says: "Secret machine-ironic-userdata exists, but Metal3Machine machine", blocked: true,
			change: func(t *testing.T, e *injecting) {
				t.Helper()
				taken := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
					Namespace: build.DefaultNamespace, Name: "machine-ironic-userdata",
				}}
				if err := e.client.Create(context.Background(), taken); err != nil {
					t.Fatal(err)
				}
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			e := newInjecting(t, tc.format, tc.data)
			material := e.read(t, "cluster-ironic").Data
			if tc.change != nil {
				tc.change(t, e)
			}
			got, err := e.reconciler().injectEndpoint(context.Background(), e.scope)
			if err != nil {
				t.Fatal(err)
			}
			if !says(got, tc.want, tc.says) || got.IsBlocked() != tc.blocked {
				t.Errorf("%s: got %+v, want %s with %q", tc.reason, got, tc.want, tc.says)
			}
			containsNoSecret(t, got.Message, "do-not-tell", string(material[secrets.PasswordKey]), "PRIVATE")
		})
	}
}

func says(got outcome.Outcome, reason, words string) bool {
	return got.Reason == reason && strings.Contains(got.Message, words)
}

func containsNoSecret(t *testing.T, message string, secrets ...string) {
	t.Helper()
	for _, secret := range secrets {
		if strings.Contains(message, secret) {
			t.Errorf("the message contains a secret: %s", message)
		}
	}
}

func TestInjectFails(t *testing.T) {
	for failing := 1; failing <= 4; failing++ {
		e := newInjecting(t, "", cloudConfig)
		e.failing = failing
		got, err := e.reconciler().injectEndpoint(context.Background(), e.scope)
		if !errors.Is(err, errUnavailable) {
			t.Errorf("request %d: got %+v, %v, want its error", failing, got, err)
		}
		if got, err := e.reconciler().injectEndpoint(context.Background(), e.scope); err != nil || !got.IsDone() {
			t.Errorf("request %d: the next reconcile fails: %+v, %v", failing, got, err)
		}
	}
	e := newInjecting(t, "", cloudConfig)
	if _, err := e.reconciler().injectEndpoint(context.Background(), e.scope); err != nil {
		t.Fatal(err)
	}
	e.change(t, "machine-bootstrap", func(secret *corev1.Secret) { secret.Data["value"] = []byte(cloudConfig + "hostname: a\n") })
	e.requests, e.failing = 0, 4
	if _, err := e.reconciler().injectEndpoint(context.Background(), e.scope); !errors.Is(err, errUnavailable) {
		t.Errorf("got %v, want the error of the patch", err)
	}
}
