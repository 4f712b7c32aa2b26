package pivot_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

func TestDependantsOf(t *testing.T) {
	host := func(namespace string, edit func(*bmov1alpha1.BareMetalHost)) *bmov1alpha1.BareMetalHost {
		host := free()
		host.Namespace, host.Spec.BMC.Address = namespace, "redfish://bmc"
		edit(host)
		return host
	}
	plain := func(*bmov1alpha1.BareMetalHost) {}
	infra := func(namespace, clusterID string) *infrav1.Metal3Cluster {
		infra := &infrav1.Metal3Cluster{}
		infra.Namespace = namespace
		if clusterID != "" {
			infra.Spec.Ironic = &infrav1.Ironic{ClusterID: clusterID}
		}
		return infra
	}
	hosts := []*bmov1alpha1.BareMetalHost{
		host("z", plain), host("a", plain), host("a", plain), host("own", plain),
		host("a", func(host *bmov1alpha1.BareMetalHost) { host.Spec.BMC.Address = "" }),
		host("a", func(host *bmov1alpha1.BareMetalHost) { host.Annotations[infrav1.DeleteForMoveAnnotation] = "" }),
	}
	for name, tc := range map[string]struct {
		reason string
		infras []*infrav1.Metal3Cluster
		want   []pivot.Dependants
	}{
		"Moved": {
			"no endpoint is left in the source, and BMO there continues to use this Ironic", nil,
			[]pivot.Dependants{{"a", 2}, {"own", 1}, {"z", 1}},
		},
		"Shared": {
			"several clusters may share an endpoint", []*infrav1.Metal3Cluster{infra("own", "c1"), infra("z", "")},
			[]pivot.Dependants{{"a", 2}, {"own", 1}, {"z", 1}},
		},
		"Others": {
			"each of several Ironics has a BMO of its own", []*infrav1.Metal3Cluster{infra("own", "c1"), infra("z", "c2")},
			[]pivot.Dependants{{"own", 1}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, pivot.DependantsOf("c1", hosts, tc.infras)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
	if got := pivot.StillServed("c1", pivot.Dependants{Namespace: "a", Hosts: 2}); !strings.Contains(got.Message, "namespace a") {
		t.Errorf("got %q", got)
	}
}
