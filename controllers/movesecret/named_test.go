package movesecret

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

func reference(namespace, name string) *corev1.SecretReference {
	return &corev1.SecretReference{Namespace: namespace, Name: name}
}

func TestNamed(t *testing.T) {
	host := func(edit func(*bmov1alpha1.BareMetalHostSpec)) *bmov1alpha1.BareMetalHost {
		host := build.Host("host")
		edit(&host.Spec)
		return host
	}
	spec := infrav1.Metal3MachineSpec{
		UserData: reference("", "user"), MetaData: reference(build.DefaultNamespace, "meta"),
		NetworkData: reference("other", "network"),
	}
	machine := build.Metal3Machine("machine", "cluster")
	machine.Spec = spec
	template := build.MachineTemplate("template")
	template.Spec.Template.Spec = spec
	cases := map[string]struct {
		reason string
		object client.Object
		want   []string
	}{
		"NewHost": {
			"a host has credentials from the beginning", host(func(*bmov1alpha1.BareMetalHostSpec) {}), []string{"host-bmc"},
		},
		"FullHost": {
			"each field counts, and the order is fixed", host(func(spec *bmov1alpha1.BareMetalHostSpec) {
				spec.UserData, spec.MetaData = reference(build.DefaultNamespace, "user"), reference("", "meta")
				spec.NetworkData, spec.PreprovisioningNetworkDataName = reference("", "network"), "ramdisk"
			}), []string{"host-bmc", "meta", "network", "ramdisk", "user"},
		},
		"SharedSecret": {
			"a Secret is looked at once", host(func(spec *bmov1alpha1.BareMetalHostSpec) {
				spec.NetworkData, spec.PreprovisioningNetworkDataName = reference("", "network"), "network"
			}), []string{"host-bmc", "network"},
		},
		"OtherNamespace": {
			"clusterctl looks only where the host lies", host(func(spec *bmov1alpha1.BareMetalHostSpec) {
				spec.UserData = reference("other", "user")
			}), []string{"host-bmc"},
		},
		"NoCredentials": {
			"an externally managed host may have none", host(func(spec *bmov1alpha1.BareMetalHostSpec) {
				spec.BMC.CredentialsName = ""
			}), nil,
		},
		"Machine":  {"a machine that waits for its host", machine, []string{"meta", "user"}},
		"Template": {"a template that no machine was made of yet", template, []string{"meta", "user"}},
		"Other":    {"no other kind is known", &corev1.ConfigMap{}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, named(tc.object)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestMemory(t *testing.T) {
	object := func(uid string, generation int64) client.Object {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: "metal3", Name: "object", UID: types.UID(uid), Generation: generation,
		}}
	}
	moving := map[string]bool{"user": true}
	cases := map[string]struct {
		reason string
		in     client.Object
		want   map[string]bool
	}{
		"Changed": {"only what is new is looked at", object("1", 2), moving},
		"Resync":  {"everything is looked at from time to time", object("1", 1), nil},
		"Another": {"an object of the same name knows nothing", object("2", 2), nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			remembered := &memory{}
			remembered.keep(object("1", 1), moving)
			if diff := cmp.Diff(tc.want, remembered.recall(tc.in)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
			remembered.forget(client.ObjectKeyFromObject(tc.in))
			if got := remembered.recall(tc.in); got != nil || len(remembered.objects) != 0 {
				t.Errorf("%v is remembered of an object that is gone", got)
			}
		})
	}
}
