package secrets

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

const (
	clusterName = "cluster"
	namespace   = "metal3"

	// secretPassword must not appear in any message.
	secretPassword = "do-not-tell"
)

// start is the time of all tests.
var start = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// world is one Metal3Cluster and its Secrets.
type world struct {
	keeper *Keeper
	clock  *clocktesting.FakePassiveClock
	client client.Client
	owner  *infrav1.Metal3Cluster
	hosts  []*bmov1alpha1.BareMetalHost
	writes *int
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	writes := 0
	c := fake.NewClientBuilder().WithScheme(build.Scheme()).WithObjects(objects...).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
				writes++
				return c.Create(ctx, o, options...)
			},
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch,
				options ...client.PatchOption,
			) error {
				writes++
				return c.Patch(ctx, o, patch, options...)
			},
		}).Build()
	owner := build.Metal3Cluster(clusterName, build.InNamespace(namespace))
	owner.UID = "metal3cluster"
	owner.Spec.Ironic = &infrav1.Ironic{
		ClusterID: "3f9c1a7e",
		Endpoint:  infrav1.IronicEndpoint{VirtualIPs: []string{"192.0.2.2", "2001:db8::2"}},
	}
	now := clocktesting.NewFakePassiveClock(start)
	return &world{
		keeper: &Keeper{Client: c, Random: rand.Reader, Clock: now, Hash: HashPassword},
		clock:  now, client: c, owner: owner, writes: &writes,
	}
}

// ensure runs the keeper, and requires that no message contains a secret.
func (w *world) ensure(t *testing.T) (Material, outcome.Outcome) {
	t.Helper()
	material, result, err := w.keeper.Ensure(context.Background(), w.owner, clusterName, w.hosts)
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("%v %+v %#v %s %v", material, material, material, result.Message, err)
	for _, secret := range []string{secretPassword, string(material.Password), "PRIVATE KEY"} {
		if secret != "" && strings.Contains(text, secret) {
			t.Errorf("a message contains a secret: %s", text)
		}
	}
	return material, result
}

func (w *world) complete(t *testing.T) Material {
	t.Helper()
	material, result := w.ensure(t)
	if !result.IsDone() {
		t.Fatalf("got %+v, want a complete Secret", result)
	}
	return material
}

func (w *world) stored(t *testing.T, name string) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{}
	if err := w.client.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: name}, secret); err != nil {
		t.Fatal(err)
	}
	return secret
}

func secret(name string, data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: maps.Clone(data)}
}

// generated returns the data of a generated Secret.
func generated(t *testing.T, addresses ...string) map[string][]byte {
	t.Helper()
	w := newWorld(t)
	if len(addresses) > 0 {
		w.owner.Spec.Ironic.Endpoint.VirtualIPs = addresses
	}
	w.complete(t)
	return w.stored(t, Name(clusterName)).Data
}

func TestEverythingIsGeneratedOnce(t *testing.T) {
	w := newWorld(t)
	first := w.complete(t)
	stored := w.stored(t, "cluster-ironic")
	if stored.Type != clusterv1.ClusterSecretType || stored.Labels[clusterv1.ClusterNameLabel] != clusterName ||
		!metav1.IsControlledBy(stored, w.owner) {
		t.Errorf("a move omits the Secret: %s %v %v", stored.Type, stored.Labels, stored.OwnerReferences)
	}
	if string(first.Username) != "ironic" || len(first.Password) != 32 || !admits(first.Htpasswd, first.Username, first.Password) {
		t.Errorf("the credentials do not match: %s", first)
	}
	serves(t, first)
	second := w.complete(t)
	if diff := cmp.Diff(first, second); diff != "" || *w.writes != 1 {
		t.Errorf("%d writes, want 1; the second reconcile changes it:\n%s", *w.writes, diff)
	}
	if other := newWorld(t).complete(t); string(other.Password) == string(first.Password) {
		t.Error("two clusters have one password")
	}
}

// serves requires that clients of both addresses trust the certificate during its validity.
func serves(t *testing.T, first Material) {
	t.Helper()
	pair, err := tls.X509KeyPair(first.Certificate, first.Key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(first.Authority)
	for _, address := range []string{"192.0.2.2", "2001:db8::2"} {
		for _, at := range []time.Time{start, start.AddDate(10, 0, -1)} {
			options := x509.VerifyOptions{Roots: roots, DNSName: address, CurrentTime: at}
			if _, err := pair.Leaf.Verify(options); err != nil {
				t.Errorf("a client of %s in %s refuses the certificate: %v", address, at, err)
			}
		}
	}
	if pair.Leaf.IsCA {
		t.Error("a user with access to a node could sign for others")
	}
}

// TestExistingValuesAreKept starts with a part of a Secret in each case.
func TestExistingValuesAreKept(t *testing.T) {
	all := generated(t)
	cases := map[string]struct {
		reason string
		keys   []string
		want   string
	}{
		"All":            {"nothing is missing", []string{UsernameKey, PasswordKey, HtpasswdKey, AuthorityKey, AuthorityKeyKey, CertificateKey, KeyKey}, ""},
		"Credentials":    {"certificates are generated", []string{UsernameKey, PasswordKey}, ""},
		"Authority":      {"credentials and a certificate are", []string{AuthorityKey, AuthorityKeyKey}, ""},
		"NoAuthorityKey": {"a certificate of another authority requires no key", []string{AuthorityKey, CertificateKey, KeyKey}, ""},
		"OnlyUsername":   {"half of the credentials", []string{UsernameKey}, "lacks password"},
		"OnlyPassword":   {"the other half", []string{PasswordKey}, "lacks username"},
		"OnlyHtpasswd":   {"its password is unknown", []string{HtpasswdKey}, "neither username nor password"},
		"OnlyAuthority":  {"nothing can be signed", []string{AuthorityKey}, "has ca.crt but not ca.key, tls.crt, tls.key"},
		"NoAuthority":    {"no client could verify it", []string{CertificateKey, KeyKey}, "but not ca.crt"},
		"OnlyKey":        {"a key without its certificate", []string{AuthorityKey, AuthorityKeyKey, KeyKey}, "but not tls.crt"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			given := pick(all, tc.keys...)
			w := newWorld(t, secret("cluster-ironic", given))
			_, result := w.ensure(t)
			stored := w.stored(t, "cluster-ironic")
			if diff := cmp.Diff(given, pick(stored.Data, tc.keys...)); diff != "" {
				t.Errorf("%s: existing values changed:\n%s", tc.reason, diff)
			}
			if tc.want == "" {
				if _, err := Read(stored.Data); err != nil || !result.IsDone() || !metav1.IsControlledBy(stored, w.owner) {
					t.Errorf("%s: got %+v, %v", tc.reason, result, err)
				}
				return
			}
			if !result.IsBlocked() || result.Reason != infrav1.IronicSecretInvalidReason || *w.writes != 0 ||
				!strings.Contains(result.Message, tc.want) || !strings.Contains(result.Message, "cluster-ironic") {
				t.Errorf("%s: got %+v after %d writes, want blocked because of %q", tc.reason, result, *w.writes, tc.want)
			}
		})
	}
}

func TestInvalidValues(t *testing.T) {
	all, others := generated(t), generated(t, "192.0.2.3", "2001:db8::2")
	cases := map[string]struct {
		reason string
		change func(w *world, data map[string][]byte)
		want   string
	}{
		"Htpasswd": {
			"a hash of another password", func(_ *world, data map[string][]byte) { data[HtpasswdKey] = others[HtpasswdKey] },
			"remove htpasswd",
		},
		"Pair": {
			"a key of another certificate", func(_ *world, data map[string][]byte) { data[KeyKey] = others[KeyKey] },
			"do not belong together",
		},
		"Authority": {
			"signed by another", func(_ *world, data map[string][]byte) { data[AuthorityKey] = others[AuthorityKey] },
			"was not signed by ca.crt",
		},
		"NoPEM": {
			"no certificate", func(_ *world, data map[string][]byte) { data[AuthorityKey] = []byte(secretPassword) },
			"ca.crt holds no certificate",
		},
		"Addresses": {
			"the endpoint has moved", func(w *world, _ map[string][]byte) {
				w.owner.Spec.Ironic.Endpoint.VirtualIPs = []string{"192.0.2.9"}
			}, "is not valid for 192.0.2.9: remove tls.crt and tls.key from Secret cluster-ironic",
		},
		"Expired": {
			"ten years later", func(w *world, _ map[string][]byte) { w.clock.SetTime(start.AddDate(11, 0, 0)) }, "has expired",
		},
		"TooEarly": {
			"a clock that is wrong", func(w *world, _ map[string][]byte) { w.clock.SetTime(start.AddDate(-1, 0, 0)) },
			"not valid yet",
		},
		"Username": {
			"basic authentication ends a name with a colon",
			func(_ *world, data map[string][]byte) { data[UsernameKey] = []byte("a:b") }, "has a colon",
		},
		"LineEnd": {
			"as echo writes it",
			func(_ *world, data map[string][]byte) { data[PasswordKey] = []byte(secretPassword + "\n") }, "has a line end",
		},
		"LongPassword": {
			"bcrypt would cut it",
			func(_ *world, data map[string][]byte) { data[PasswordKey] = []byte(strings.Repeat("a", 73)) }, "longer than 72",
		},
		"Address": {
			"an address that came around admission",
			func(w *world, _ map[string][]byte) { w.owner.Spec.Ironic.Endpoint.VirtualIPs = []string{"x"} }, `has "x"`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			data := maps.Clone(all)
			w := newWorld(t)
			tc.change(w, data)
			if err := w.client.Create(context.Background(), secret("cluster-ironic", data)); err != nil {
				t.Fatal(err)
			}
			*w.writes = 0
			_, result := w.ensure(t)
			if !result.IsBlocked() || !strings.Contains(result.Message, tc.want) || *w.writes != 0 {
				t.Errorf("%s: got %+v after %d writes, want blocked because of %q", tc.reason, result, *w.writes, tc.want)
			}
		})
	}
}

func TestRemovedCertificateIsIssuedAgain(t *testing.T) {
	data := generated(t)
	w := newWorld(t, secret("cluster-ironic", pick(data, UsernameKey, PasswordKey, HtpasswdKey, AuthorityKey, AuthorityKeyKey)))
	w.owner.Spec.Ironic.Endpoint.VirtualIPs = []string{"192.0.2.9"}
	material := w.complete(t)
	if diff := cmp.Diff(data[AuthorityKey], material.Authority); diff != "" {
		t.Error("the authority changed")
	}
}

// TestRenewal requires the remedy that gives the nodes a certificate that ends later.
func TestRenewal(t *testing.T) {
	all := generated(t)
	lasting := pick(all, UsernameKey, PasswordKey)
	var err error
	lasting[AuthorityKey], lasting[AuthorityKeyKey], err = sign(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: start, NotAfter: start.AddDate(20, 0, 0),
		KeyUsage: x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	const mine = "mine-tls"
	cases := map[string]struct {
		reason string
		data   map[string][]byte
		tlsRef string
		want   string
	}{
		"Generated": {
			"a certificate of the same authority would end with it", all, "",
			"remove ca.crt, ca.key, tls.crt and tls.key from Secret cluster-ironic to have them issued again, and let clients trust the new ca.crt and the old one",
		},
		"LastingAuthority": {
			"clients trust the authority already", lasting, "",
			"remove tls.crt and tls.key from Secret cluster-ironic to have them issued again",
		},
		"NoAuthorityKey": {
			"the manager cannot sign", pick(all, AuthorityKey, CertificateKey, KeyKey), "", "replace it in Secret cluster-ironic",
		},
		"Reference": {
			"the manager copies that Secret", all, mine, "replace it in Secret mine-tls, which spec.ironic.tlsRef names",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, secret("cluster-ironic", tc.data), secret(mine, pick(all, AuthorityKey, CertificateKey, KeyKey)))
			if tc.tlsRef != "" {
				w.owner.Spec.Ironic.TLSRef = &corev1.LocalObjectReference{Name: tc.tlsRef}
			}
			if got := w.complete(t).Renewal; got != tc.want {
				t.Errorf("%s: got %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}

// given is a world with both Secrets of the user, created after all values were generated.
func given(t *testing.T) (w *world, data map[string][]byte) {
	t.Helper()
	data = generated(t)
	credentials := map[string][]byte{UsernameKey: []byte("admin"), PasswordKey: []byte(secretPassword)}
	w = newWorld(t, secret("mine", credentials), secret("mine-tls", pick(data, AuthorityKey, CertificateKey, KeyKey)))
	w.complete(t)
	w.owner.Spec.Ironic.CredentialsRef = &corev1.LocalObjectReference{Name: "mine"}
	w.owner.Spec.Ironic.TLSRef = &corev1.LocalObjectReference{Name: "mine-tls"}
	return w, data
}

func TestSecretsOfTheUserHavePrecedence(t *testing.T) {
	w, data := given(t)
	material := w.complete(t)
	if string(material.Username) != "admin" || !admits(material.Htpasswd, []byte("admin"), []byte(secretPassword)) ||
		string(material.Authority) != string(data[AuthorityKey]) {
		t.Errorf("the Secrets of the user have no precedence: %s", material)
	}
	if _, left := w.stored(t, "cluster-ironic").Data[AuthorityKeyKey]; left {
		t.Error("the key of another authority remains")
	}
	before := *w.writes
	if again := w.complete(t); *w.writes != before || string(again.Htpasswd) != string(material.Htpasswd) {
		t.Error("a second reconcile changes the Secret")
	}
}

func TestSecretsOfTheUserMove(t *testing.T) {
	w, _ := given(t)
	w.complete(t)
	for _, name := range []string{"mine", "mine-tls"} {
		owned := w.stored(t, name)
		if len(owned.OwnerReferences) != 1 || owned.OwnerReferences[0].Name != w.owner.Name ||
			metav1.GetControllerOf(owned) != nil || owned.Labels[clusterv1.ClusterNameLabel] != clusterName {
			t.Errorf("a move omits %s: %v %v", name, owned.OwnerReferences, owned.Labels)
		}
	}
}

// TestSecretsOfTheUserThatMayNotBeOwned has an API server that refuses the owner of both Secrets.
func TestSecretsOfTheUserThatMayNotBeOwned(t *testing.T) {
	w, _ := given(t)
	inner, isWatching := w.client.(client.WithWatch)
	if !isWatching {
		t.Fatal("the client does not watch")
	}
	w.keeper.Client = interceptor.NewClient(inner, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if o.GetName() == Name(clusterName) {
				return c.Patch(ctx, o, p, opts...)
			}
			return apierrors.NewForbidden(corev1.Resource("secrets"), o.GetName(), errors.New("cannot set an ownerRef"))
		},
	})
	material, result, err := w.keeper.Ensure(context.Background(), w.owner, clusterName, w.hosts)
	var unowned *UnownedError
	if !errors.As(err, &unowned) || !result.IsDone() || string(material.Password) != secretPassword {
		t.Fatalf("got %v, %v, want the material and an error", result, err)
	}
	for _, name := range []string{"mine", "mine-tls"} {
		if want := "owning Secret " + name + ", which requires the permission to delete Secrets"; !strings.Contains(err.Error(), want) {
			t.Errorf("got %q, want %q", err, want)
		}
	}
	if strings.Contains(err.Error(), secretPassword) {
		t.Errorf("the error contains the password: %v", err)
	}
	if got := w.stored(t, Name(clusterName)).Data[PasswordKey]; string(got) != secretPassword {
		t.Errorf("the Secret of the endpoint has another password")
	}
	w.keeper.Client = w.client
	w.complete(t)
}

func TestSecretsOfTheUserAreFollowed(t *testing.T) {
	w, _ := given(t)
	w.complete(t)
	rotated := w.stored(t, "mine")
	rotated.Data[PasswordKey] = []byte("another")
	if err := w.client.Update(context.Background(), rotated); err != nil {
		t.Fatal(err)
	}
	if again := w.complete(t); !admits(again.Htpasswd, []byte("admin"), []byte("another")) ||
		admits(again.Htpasswd, []byte("admin"), []byte(secretPassword)) {
		t.Error("a rotation has no effect")
	}
	w.owner.Spec.Ironic.CredentialsRef, w.owner.Spec.Ironic.TLSRef = nil, nil
	if again := w.complete(t); string(again.Password) != "another" {
		t.Error("the credentials change when the reference is removed")
	}
}

// TestUserBeforeStaysValid changes the user name twice: nodes and clients get a new user name at different times.
func TestPreviousUserStaysValid(t *testing.T) {
	w, _ := given(t)
	w.complete(t)
	rotate := func(username, password string) Material {
		t.Helper()
		rotated := w.stored(t, "mine")
		rotated.Data[UsernameKey], rotated.Data[PasswordKey] = []byte(username), []byte(password)
		if err := w.client.Update(context.Background(), rotated); err != nil {
			t.Fatal(err)
		}
		return w.complete(t)
	}
	second := rotate("second", "two")
	if !admits(second.Htpasswd, []byte("second"), []byte("two")) ||
		!admits(second.Htpasswd, []byte("admin"), []byte(secretPassword)) {
		t.Errorf("the previous or the current user is invalid: %d lines", bytes.Count(second.Htpasswd, []byte("\n")))
	}
	third := rotate("third", "three")
	if !admits(third.Htpasswd, []byte("third"), []byte("three")) || !admits(third.Htpasswd, []byte("second"), []byte("two")) {
		t.Errorf("the previous or the current user is invalid: %d lines", bytes.Count(third.Htpasswd, []byte("\n")))
	}
	if admits(third.Htpasswd, []byte("admin"), []byte(secretPassword)) {
		t.Error("an older user is valid")
	}
	rotate("second", "two")
	last := rotate("last", "four")
	if !admits(last.Htpasswd, []byte("last"), []byte("four")) || !admits(last.Htpasswd, []byte("second"), []byte("two")) {
		t.Error("after a return to an earlier user, the previous or the current user is invalid")
	}
}

func TestSecretsOfTheUserThatCannotBeUsed(t *testing.T) {
	data := generated(t)
	ofHost := secret("mine", data)
	build.OwnedBy(build.Host("rack-1", build.InNamespace(namespace)))(ofHost)
	labelled := secret("mine", data)
	labelled.Labels = map[string]string{bmoLabel: "baremetal"}
	cases := map[string]struct {
		reason string
		secret *corev1.Secret
		want   outcome.Outcome
	}{
		"Missing": {
			"the user may create it later", nil,
			outcome.Waiting(infrav1.WaitingForIronicSecretReason, "Waiting for Secret mine, which spec.ironic.%s names"),
		},
		"Empty": {
			"a Secret without keys", secret("mine", nil), outcome.Blocked(infrav1.IronicSecretInvalidReason, "lacks"),
		},
		"Half": {
			"half of it", secret("mine", pick(data, PasswordKey, CertificateKey)),
			outcome.Blocked(infrav1.IronicSecretInvalidReason, "lacks"),
		},
		"OfHost": {
			"the user could read the password of the BMC", ofHost, outcome.Blocked(infrav1.IronicSecretInvalidReason,
				"is owned by BareMetalHost rack-1: name a Secret that the Baremetal Operator does not use"),
		},
		"LabelOfBMO": {
			"the Secret has lost its owner", labelled, outcome.Blocked(infrav1.IronicSecretInvalidReason,
				"has the label environment.metal3.io: name a Secret that the Baremetal Operator does not use"),
		},
		"UnseenByBMO": {
			"BMO has not reconciled the host", secret("rack-2-bmc", data), outcome.Blocked(infrav1.IronicSecretInvalidReason,
				"is spec.bmc.credentialsName of BareMetalHost rack-2: name a Secret that the Baremetal Operator does not use"),
		},
	}
	for name, tc := range cases {
		for _, field := range []string{"credentialsRef", "tlsRef"} {
			t.Run(name+field, func(t *testing.T) {
				var objects []client.Object
				if tc.secret != nil {
					objects = append(objects, tc.secret.DeepCopy())
				}
				w := newWorld(t, objects...)
				w.hosts = append(w.hosts, build.Host("rack-1"), build.Host("rack-2"))
				reference := &corev1.LocalObjectReference{Name: "mine"}
				if tc.secret != nil {
					reference.Name = tc.secret.Name
				}
				if field == "tlsRef" {
					w.owner.Spec.Ironic.TLSRef = reference
				} else {
					w.owner.Spec.Ironic.CredentialsRef = reference
				}
				_, got := w.ensure(t)
				message := strings.ReplaceAll(tc.want.Message, "%s", field)
				if got.Reason != tc.want.Reason || got.IsBlocked() != tc.want.IsBlocked() ||
					!strings.Contains(got.Message, message) || !strings.Contains(got.Message, field) {
					t.Errorf("%s: got %+v, want %+v", tc.reason, got, tc.want)
				}
				if *w.writes != 0 {
					t.Errorf("%s: %d writes, want no copy and no owner", tc.reason, *w.writes)
				}
			})
		}
	}
}

func TestOwnersOfOthersStay(t *testing.T) {
	owned := secret("mine", map[string][]byte{UsernameKey: []byte("admin"), PasswordKey: []byte(secretPassword)})
	build.OwnedBy(build.Cluster("other"))(owned)
	w := newWorld(t, owned)
	w.owner.Spec.Ironic.CredentialsRef = &corev1.LocalObjectReference{Name: "mine"}
	w.complete(t)
	if diff := cmp.Diff(owned.ObjectMeta, w.stored(t, "mine").ObjectMeta); diff != "" {
		t.Errorf("a Secret with an owner was changed:\n%s", diff)
	}
	taken := secret("cluster-ironic", nil)
	taken.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(build.Cluster("other"), clusterv1.GroupVersion.WithKind("Cluster"))}
	w = newWorld(t, taken)
	if _, got := w.ensure(t); !got.IsBlocked() || !strings.Contains(got.Message, "belongs to Cluster other") {
		t.Errorf("got %+v, want that the name is taken", got)
	}
	ofHost := secret("cluster-ironic", pick(generated(t), UsernameKey, PasswordKey))
	build.OwnedBy(build.Host("cluster", build.InNamespace(namespace)))(ofHost)
	ofHost.OwnerReferences[0].Controller = nil
	w = newWorld(t, ofHost)
	if _, got := w.ensure(t); !got.IsBlocked() || !strings.Contains(got.Message, "is owned by BareMetalHost cluster") ||
		*w.writes != 0 {
		t.Errorf("got %+v after %d writes, want that the credentials of a BMC are not used", got, *w.writes)
	}
	w = newWorld(t, secret("cluster-ironic", pick(generated(t), UsernameKey, PasswordKey)))
	w.hosts = append(w.hosts, build.Host("rack-1"))
	w.hosts[0].Spec.BMC.CredentialsName = "cluster-ironic"
	if _, got := w.ensure(t); !got.IsBlocked() || *w.writes != 0 ||
		!strings.Contains(got.Message, "is spec.bmc.credentialsName of BareMetalHost rack-1") {
		t.Errorf("got %+v after %d writes, want that credentials for a BMC are not used", got, *w.writes)
	}
	w = newWorld(t)
	w.owner.Spec.Ironic.CredentialsRef = &corev1.LocalObjectReference{Name: "cluster-ironic"}
	w.complete(t)
}

// TestOneSecretForBothReferences has one write for the owner of a Secret that is read twice.
func TestOneSecretForBothReferences(t *testing.T) {
	w := newWorld(t, secret("mine", generated(t)))
	w.owner.Spec.Ironic.CredentialsRef = &corev1.LocalObjectReference{Name: "mine"}
	w.owner.Spec.Ironic.TLSRef = &corev1.LocalObjectReference{Name: "mine"}
	w.complete(t)
	if owners := w.stored(t, "mine").OwnerReferences; len(owners) != 1 || *w.writes != 2 {
		t.Errorf("%d writes, want one of each Secret; owners: %v", *w.writes, owners)
	}
}

// TestOwnersDoNotBlock has an API server that refuses blockOwnerDeletion without permission for finalizers of the
// owner.
func TestOwnersDoNotBlock(t *testing.T) {
	w := newWorld(t)
	w.complete(t)
	made := w.stored(t, "cluster-ironic")
	if ptr.Deref(metav1.GetControllerOf(made).BlockOwnerDeletion, true) {
		t.Error("the generated Secret blocks the deletion of the Metal3Cluster")
	}
	before := made.DeepCopy()
	before.ResourceVersion = ""
	before.OwnerReferences[0].BlockOwnerDeletion = ptr.To(true)
	w = newWorld(t, before)
	w.complete(t)
	if diff := cmp.Diff(before.OwnerReferences, w.stored(t, "cluster-ironic").OwnerReferences); diff != "" || *w.writes > 0 {
		t.Errorf("%d writes to an unchanged Secret: -want +got:\n%s", *w.writes, diff)
	}
}

// TestSecretsOfTheUserAreShared has several Metal3Clusters that name one Secret, which must outlive each of them.
func TestSecretsOfTheUserAreShared(t *testing.T) {
	infra := func(name string, uid types.UID) client.Object {
		object := build.Metal3Cluster(name, build.InNamespace(namespace))
		object.UID = uid
		return object
	}
	foreign := infra("alien", "alien-uid")
	cases := map[string]struct {
		reason string
		owners []client.Object
		change func(*corev1.Secret)
		want   []types.UID
		writes int
	}{
		"NoOwner": {reason: "a Secret without an owner does not move", want: []types.UID{"metal3cluster"}, writes: 1},
		"Another": {
			reason: "the Secret is deleted with its last owner", owners: []client.Object{infra("first", "first-uid")},
			want: []types.UID{"first-uid", "metal3cluster"}, writes: 1,
		},
		"Itself": {
			reason: "it is an owner already", owners: []client.Object{infra("first", "first-uid"), infra(clusterName, "metal3cluster")},
			want: []types.UID{"first-uid", "metal3cluster"},
		},
		"Before": {
			reason: "a deleted Metal3Cluster had the same name", owners: []client.Object{infra(clusterName, "gone")},
			want: []types.UID{"metal3cluster"}, writes: 1,
		},
		"Mixed": {
			reason: "the Secret moves with the Cluster, or not at all",
			owners: []client.Object{infra("first", "first-uid"), build.Cluster("other")}, want: []types.UID{"first-uid", ""},
		},
		"OtherGroup": {
			reason: "another group may have a kind with this name", owners: []client.Object{foreign}, want: []types.UID{"alien-uid"},
			change: func(mine *corev1.Secret) { mine.OwnerReferences[0].APIVersion = "example.com/v1" },
		},
		"HostOfOtherGroup": {
			reason: "it is no host of BMO", owners: []client.Object{build.Host("host")}, want: []types.UID{""},
			change: func(mine *corev1.Secret) { mine.OwnerReferences[0].APIVersion = "example.com/v1" },
		},
		"OtherVersion": {
			reason: "the API version is ignored", owners: []client.Object{infra("first", "first-uid")},
			change: func(mine *corev1.Secret) {
				mine.OwnerReferences[0].APIVersion = infrav1.GroupVersion.Group + "/v1beta1"
			},
			want: []types.UID{"first-uid", "metal3cluster"}, writes: 1,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			mine := secret("mine", map[string][]byte{UsernameKey: []byte("admin"), PasswordKey: []byte(secretPassword)})
			for _, owner := range tc.owners {
				build.OwnedBy(owner)(mine)
			}
			if tc.change != nil {
				tc.change(mine)
			}
			w := newWorld(t, mine)
			w.owner.Spec.Ironic.CredentialsRef = &corev1.LocalObjectReference{Name: "mine"}
			for range 2 {
				w.complete(t)
			}
			var got []types.UID
			for _, owner := range w.stored(t, "mine").OwnerReferences {
				got = append(got, owner.UID)
			}
			// The last write is that of the Secret of the endpoint.
			if diff := cmp.Diff(tc.want, got); diff != "" || *w.writes != tc.writes+1 {
				t.Errorf("%s: %d writes, want %d; -want +got:\n%s", tc.reason, *w.writes, tc.writes+1, diff)
			}
		})
	}
}

// failing makes one request fail, and counts requests.
func (w *world) failing(t *testing.T, number int) *int {
	t.Helper()
	inner, ok := w.client.(client.WithWatch)
	if !ok {
		t.Fatal("the client cannot be wrapped")
	}
	requests := 0
	fails := func(request func() error) error {
		requests++
		if requests == number {
			return errAway
		}
		return request()
	}
	w.keeper.Client = interceptor.NewClient(inner, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			return fails(func() error { return c.Get(ctx, key, o, opts...) })
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return fails(func() error { return c.Create(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return fails(func() error { return c.Patch(ctx, o, p, opts...) })
		},
	})
	return &requests
}

var errAway = errors.New("the API server is unavailable")

// TestFailures fails each request once: two reads, the owner of the Secret of the user, the Secret of the cluster,
// and its completion.
func TestFailures(t *testing.T) {
	mine := secret("mine", map[string][]byte{UsernameKey: []byte("admin"), PasswordKey: []byte(secretPassword)})
	half := secret("cluster-ironic", map[string][]byte{"note": []byte("of the user")})
	for name, objects := range map[string][]client.Object{"Create": {mine}, "Complete": {mine, half}} {
		for number := 1; number <= 4; number++ {
			w := newWorld(t, objects...)
			w.owner.Spec.Ironic.CredentialsRef = &corev1.LocalObjectReference{Name: "mine"}
			requests := w.failing(t, number)
			material, result, err := w.keeper.Ensure(context.Background(), w.owner, clusterName, w.hosts)
			if !errors.Is(err, errAway) || *requests != number || len(material.Password) > 0 {
				t.Fatalf("%s, request %d: got %v, %v, want its error and no material", name, number, result, err)
			}
			if strings.Contains(err.Error(), secretPassword) {
				t.Errorf("%s, request %d: the error contains a secret: %v", name, number, err)
			}
			w.complete(t)
		}
	}
}

func TestRandomAndHashFail(t *testing.T) {
	broken := errors.New("no dice")
	w := newWorld(t)
	w.keeper.Random = brokenReader{broken}
	if _, _, err := w.keeper.Ensure(context.Background(), w.owner, clusterName, w.hosts); !errors.Is(err, broken) || *w.writes != 0 {
		t.Errorf("got %v after %d writes", err, *w.writes)
	}
	w = newWorld(t)
	w.keeper.Hash = func([]byte) ([]byte, error) { return nil, broken }
	if _, _, err := w.keeper.Ensure(context.Background(), w.owner, clusterName, w.hosts); !errors.Is(err, broken) || *w.writes != 0 {
		t.Errorf("got %v after %d writes", err, *w.writes)
	}
}

type brokenReader struct{ err error }

func (b brokenReader) Read([]byte) (int, error) { return 0, b.err }

func TestReadNamesMissingKeys(t *testing.T) {
	_, err := Read(map[string][]byte{UsernameKey: []byte("a"), PasswordKey: []byte(secretPassword)})
	if err == nil || !strings.Contains(err.Error(), "htpasswd, ca.crt, tls.crt, tls.key") || strings.Contains(err.Error(), secretPassword) {
		t.Errorf("got %v", err)
	}
}
