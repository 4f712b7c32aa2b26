package metal3machine

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

func TestReleases(t *testing.T) {
	owner := func(uid types.UID) metav1.OwnerReference {
		return metav1.OwnerReference{Kind: "Metal3Machine", UID: uid}
	}
	cases := map[string]struct {
		reason string
		owners []metav1.OwnerReference
		want   bool
	}{
		"NoOwner":   {"the claim lost its ownerReferences", nil, true},
		"NotItsOwn": {"the ownerReference lost the field controller", []metav1.OwnerReference{owner("other"), owner("machine")}, true},
		"Another":   {"another object owns the claim", []metav1.OwnerReference{owner("other")}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			machine := &infrav1.Metal3Machine{ObjectMeta: metav1.ObjectMeta{UID: "machine"}}
			claim := &infrav1.Metal3DataClaim{ObjectMeta: metav1.ObjectMeta{OwnerReferences: tc.owners}}
			if got := releases(machine, claim); got != tc.want {
				t.Errorf("%s: got %t, want %t", tc.reason, got, tc.want)
			}
		})
	}
}

func TestRequireSecrets(t *testing.T) {
	named := func(s *scope) {
		s.machine.Spec.MetaData = &corev1.SecretReference{Name: "meta", Namespace: "ignored"}
		s.machine.Spec.NetworkData = &corev1.SecretReference{Name: "network"}
		s.machine.Spec.UserData = &corev1.SecretReference{Name: "user"}
	}
	withoutBootstrapData := func(s *scope) { s.bootstrap.name = ptr.To("") }
	waiting := func(secret, field string) outcome.Outcome {
		return outcome.Waiting(infrav1.DataSecretMissingReason,
			"Secret "+secret+", which "+field+" names, does not exist. Create it").WithAfter(secretInterval)
	}
	both := []string{"meta", "network"}
	noAnswer := errors.New("no answer")
	cases := map[string]struct {
		reason  string
		scope   *scope
		secrets []string
		err     error
		fails   bool
		want    outcome.Outcome
	}{
		"None":    {"the spec names no Secret, so there is no request", complete(), nil, noAnswer, false, outcome.Done()},
		"All":     {"user data comes from the bootstrap data", complete(named), both, nil, false, outcome.Done()},
		"Meta":    {"the first field", complete(named), nil, nil, false, waiting("meta", "spec.metaData")},
		"Network": {"the next field", complete(named), both[:1], nil, false, waiting("network", "spec.networkData")},
		"UserData": {
			"there is no bootstrap data", complete(named, withoutBootstrapData), both, nil, false,
			waiting("user", "spec.userData"),
		},
		"NoName": {
			"a request without a name would fail for ever",
			complete(withoutBootstrapData, func(s *scope) { s.machine.Spec.UserData = &corev1.SecretReference{} }), nil, noAnswer,
			false, outcome.Blocked(infrav1.InvalidSpecReason, "spec.userData.name is empty. Name a Secret, or leave out spec.userData"),
		},
		"Error": {"a failed request proves nothing", complete(named), both, noAnswer, true, outcome.Done()},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			live := fake.NewClientBuilder()
			for _, secret := range tc.secrets {
				live = live.WithObjects(&corev1.Secret{
					ObjectMeta: metav1.ObjectMeta{Namespace: build.DefaultNamespace, Name: secret},
				})
			}
			live = live.WithInterceptorFuncs(interceptor.Funcs{Get: func(
				ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption,
			) error {
				if tc.err != nil {
					return tc.err
				}
				return c.Get(ctx, key, object, options...)
			}})
			got, err := (&Reconciler{Live: live.Build()}).requireSecrets(t.Context(), tc.scope)
			if errors.Is(err, noAnswer) != tc.fails {
				t.Errorf("%s: got error %v, want one: %v", tc.reason, err, tc.fails)
			}
			if got != tc.want {
				t.Errorf("%s: got %+v, want %+v", tc.reason, got, tc.want)
			}
		})
	}
}
