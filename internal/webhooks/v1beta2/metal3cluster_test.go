package v1beta2_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks/v1beta2"
)

func validIronic() *infrav1.Ironic {
	return &infrav1.Ironic{
		ClusterID: "3f9c1a7e",
		Endpoint: infrav1.IronicEndpoint{
			VirtualIPs: []string{"172.22.0.2"}, CIDRs: []string{"172.22.0.0/24"}, Interface: "provisioning",
		},
	}
}

func validCluster() *infrav1.Metal3Cluster {
	return &infrav1.Metal3Cluster{
		ObjectMeta: named("cluster"),
		Spec: infrav1.Metal3ClusterSpec{
			ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "192.0.2.10", Port: 6443},
			CloudProviderEnabled: ptr.To(false),
		},
	}
}

func provisioned(cluster *infrav1.Metal3Cluster) {
	cluster.Status.Initialization.Provisioned = ptr.To(true)
}

func endpoint(host string, port int32) func(*infrav1.Metal3Cluster) {
	return func(cluster *infrav1.Metal3Cluster) {
		cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: host, Port: port}
	}
}

func ironic(changes ...func(*infrav1.Ironic)) func(*infrav1.Metal3Cluster) {
	return func(cluster *infrav1.Metal3Cluster) { cluster.Spec.Ironic = altered(validIronic, changes...) }
}

func clusterID(id string) func(*infrav1.Ironic) {
	return func(ironic *infrav1.Ironic) { ironic.ClusterID = id }
}

func TestMetal3ClusterCreate(t *testing.T) {
	domains := func(names ...string) func(*infrav1.Metal3Cluster) {
		return func(cluster *infrav1.Metal3Cluster) {
			for _, name := range names {
				cluster.Spec.FailureDomains = append(cluster.Spec.FailureDomains, clusterv1.FailureDomain{Name: name})
			}
		}
	}
	judge(t, v1beta2.Metal3ClusterValidator(), map[string]step[*infrav1.Metal3Cluster]{
		"valid": {reason: "only the endpoint is required", after: validCluster()},
		"no endpoint": {
			reason: "the endpoint of the Cluster is used",
			after:  altered(validCluster, endpoint("", 0)),
		},
		"port without host": {
			reason: "an incomplete endpoint",
			after:  altered(validCluster, endpoint("", 6443)),
			want: []string{"spec.controlPlaneEndpoint.host: Required value: port 6443 is set without a host; " +
				"set the host, or leave out controlPlaneEndpoint to use the endpoint of the Cluster"},
		},
		"failure domains": {
			reason: "names are unique",
			after:  altered(validCluster, domains("a", "b")),
		},
		"wrong failure domains": {
			reason: "each failure domain requires a unique name",
			after:  altered(validCluster, domains("a", "", "a")),
			want: []string{
				"spec.failureDomains[1].name: Required value: name the failure domain as the label " +
					"infrastructure.cluster.x-k8s.io/failure-domain of its hosts does",
				`spec.failureDomains[2].name: Duplicate value: "a"`,
			},
		},
		"ironic": {reason: "a complete endpoint", after: altered(validCluster, ironic())},
		"wrong ironic": {
			reason: "the rules of the Ironic endpoint apply under spec.ironic",
			after: altered(validCluster, ironic(func(ironic *infrav1.Ironic) {
				ironic.Endpoint.Interface = ""
			})),
			want: []string{"spec.ironic.endpoint.interface: Required value: name the interface or bridge that carries " +
				"the addresses, or set macAddresses or interfaceCIDR"},
		},
	})
}

func TestMetal3ClusterEndpointUpdate(t *testing.T) {
	const restore = "does not change; restore it: the cluster is provisioned and its nodes know no other"
	judge(t, v1beta2.Metal3ClusterValidator(), map[string]step[*infrav1.Metal3Cluster]{
		"before it is provisioned": {
			reason: "no client uses the endpoint yet",
			before: validCluster(), after: altered(validCluster, endpoint("192.0.2.11", 6443)),
		},
		"first set when provisioned": {
			reason: "the endpoint of the Cluster was used",
			before: altered(validCluster, provisioned, endpoint("", 0)), after: validCluster(),
		},
		"other host": {
			reason: "certificates and kubeconfigs name the old one",
			before: altered(validCluster, provisioned), after: altered(validCluster, endpoint("192.0.2.11", 6443)),
			want: []string{`spec.controlPlaneEndpoint: Invalid value: "192.0.2.11:6443": is "192.0.2.10:6443" and ` +
				restore},
		},
		"other port": {
			reason: "the port counts; an IPv6 address has brackets",
			before: altered(validCluster, provisioned, endpoint("2001:db8::10", 6443)),
			after:  altered(validCluster, endpoint("2001:db8::10", 443)),
			want: []string{`spec.controlPlaneEndpoint: Invalid value: "[2001:db8::10]:443": is ` +
				`"[2001:db8::10]:6443" and ` + restore},
		},
		"removed": {
			reason: "a removal is refused too",
			before: altered(validCluster, provisioned), after: altered(validCluster, endpoint("", 0)),
			want: []string{`spec.controlPlaneEndpoint: Invalid value: "": is "192.0.2.10:6443" and ` + restore},
		},
		"port filled in": {
			reason: "the default of a cluster that was stored without port is no change",
			before: altered(validCluster, provisioned, endpoint("192.0.2.10", 0)), after: validCluster(),
		},
	})
}

func TestMetal3ClusterIronicUpdate(t *testing.T) {
	judge(t, v1beta2.Metal3ClusterValidator(), map[string]step[*infrav1.Metal3Cluster]{
		"added": {
			reason: "an existing cluster may add an endpoint",
			before: validCluster(), after: altered(validCluster, ironic()),
		},
		"removed": {
			reason: "and remove it",
			before: altered(validCluster, ironic()), after: validCluster(),
			warnings: []string{"spec.ironic: is removed: no node of this cluster runs Ironic for it any more"},
		},
		"another identity": {
			reason: "the hosts are registered with the old identity",
			before: altered(validCluster, ironic()), after: altered(validCluster, ironic(clusterID("other"))),
			want: []string{`spec.ironic.clusterID: Invalid value: "other": is "3f9c1a7e" and does not change; ` +
				"restore it: the hosts of the cluster are registered under it"},
		},
		"identity of a cluster that had none": {
			reason: "the object is older than the default",
			before: altered(validCluster, ironic(clusterID(""))), after: altered(validCluster, ironic()),
		},
	})
}

// fixedBytes returns fixed bytes instead of random ones.
func fixedBytes(bytes []byte) (int, error) {
	return copy(bytes, []byte{0xab, 0x00, 0x0f, 0x9c}), nil
}

// updating returns the context of an update of the stored cluster.
func updating(t *testing.T, stored *infrav1.Metal3Cluster) context.Context {
	t.Helper()
	raw, err := json.Marshal(stored)
	if err != nil {
		t.Fatal(err)
	}
	return admission.NewContextWithRequest(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Update, OldObject: runtime.RawExtension{Raw: raw},
	}})
}

func TestMetal3ClusterDefaults(t *testing.T) {
	cloud := func(enabled *bool) func(*infrav1.Metal3Cluster) {
		return func(cluster *infrav1.Metal3Cluster) { cluster.Spec.CloudProviderEnabled = enabled }
	}
	creation := admission.NewContextWithRequest(t.Context(), admission.Request{
		AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create},
	})
	moved := func(cluster *infrav1.Metal3Cluster) { cluster.Annotations = map[string]string{deleteForMove: ""} }
	cases := map[string]struct {
		reason   string
		ctx      context.Context
		in, want *infrav1.Metal3Cluster
	}{
		"complete": {reason: "no default applies", in: validCluster(), want: validCluster()},
		"port": {
			reason: "a host without port means the usual port",
			in:     altered(validCluster, endpoint("192.0.2.10", 0)), want: validCluster(),
		},
		"no endpoint": {
			reason: "the endpoint of the Cluster is used",
			in:     altered(validCluster, endpoint("", 0)), want: altered(validCluster, endpoint("", 0)),
		},
		"cloud provider": {reason: "nil means false", in: altered(validCluster, cloud(nil)), want: validCluster()},
		"cloud provider enabled": {
			reason: "true stays",
			in:     altered(validCluster, cloud(ptr.To(true))), want: altered(validCluster, cloud(ptr.To(true))),
		},
		"identity": {
			reason: "eight hexadecimal digits, leading zeros included",
			ctx:    creation,
			in:     altered(validCluster, ironic(clusterID(""))),
			want:   altered(validCluster, ironic(clusterID("ab000f9c"))),
		},
		"own identity": {
			reason: "a move keeps the identity",
			ctx:    creation,
			in:     altered(validCluster, ironic()), want: altered(validCluster, ironic()),
		},
		"identity left out of an update": {
			reason: "an apply without the field keeps the identity",
			ctx:    updating(t, altered(validCluster, ironic(clusterID("stored")))),
			in:     altered(validCluster, ironic(clusterID(""))),
			want:   altered(validCluster, ironic(clusterID("stored"))),
		},
		"endpoint added to a cluster": {
			reason: "a new endpoint gets an identity",
			ctx:    updating(t, validCluster()),
			in:     altered(validCluster, ironic(clusterID(""))),
			want:   altered(validCluster, ironic(clusterID("ab000f9c"))),
		},
		"deleted for a move": {
			reason: "the object is not changed",
			in:     altered(validCluster, moved, cloud(nil)), want: altered(validCluster, moved, cloud(nil)),
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			ctx := c.ctx
			if ctx == nil {
				ctx = t.Context()
			}
			if err := v1beta2.Metal3ClusterDefaulter(fixedBytes).Default(ctx, c.in); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, c.in); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

func TestMetal3ClusterDefaultsFail(t *testing.T) {
	noDice := func([]byte) (int, error) { return 0, errors.New("no entropy") }
	err := v1beta2.Metal3ClusterDefaulter(noDice).Default(t.Context(), altered(validCluster, ironic(clusterID(""))))
	if diff := cmp.Diff("choosing spec.ironic.clusterID: no entropy", err.Error()); diff != "" {
		t.Errorf("an error of the random source is returned (-want +got):\n%s", diff)
	}
	var request admission.Request
	request.OldObject.Raw = []byte("{")
	broken := admission.NewContextWithRequest(t.Context(), request)
	err = v1beta2.Metal3ClusterDefaulter(fixedBytes).Default(broken, validCluster())
	if err == nil || !strings.HasPrefix(err.Error(), "reading the stored Metal3Cluster: ") {
		t.Errorf("an unreadable stored object is an error, got %v", err)
	}
}
