package pivot_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

func reference(namespace, name string) *corev1.SecretReference {
	return &corev1.SecretReference{Namespace: namespace, Name: name}
}

func TestNamedSecrets(t *testing.T) {
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
		object metav1.Object
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
			if diff := cmp.Diff(tc.want, pivot.NamedSecrets(tc.object)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}
