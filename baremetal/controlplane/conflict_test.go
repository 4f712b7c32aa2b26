package controlplane_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/controlplane"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
)

// neighbour makes a Metal3Cluster with an endpoint on 172.22.0.0/24, and router ID 50.
func neighbour(name, address string, changes ...func(*infrav1.Metal3Cluster)) *infrav1.Metal3Cluster {
	made := &infrav1.Metal3Cluster{}
	made.Namespace, made.Name = "metal3", name
	made.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "api." + name + ".example", Port: 6443}
	made.Spec.Ironic = &infrav1.Ironic{
		ClusterID: "id-" + name,
		Endpoint:  infrav1.IronicEndpoint{VirtualIPs: []string{address}, CIDRs: []string{"172.22.0.0/24"}, Interface: "eth0"},
		VRRP:      infrav1.VRRP{VirtualRouterID: 50},
	}
	for _, change := range changes {
		change(made)
	}
	return made
}

// routerID sets the ID. Zero leaves it to the clusterID.
func routerID(id int32) func(*infrav1.Metal3Cluster) {
	return func(cluster *infrav1.Metal3Cluster) { cluster.Spec.Ironic.VRRP.VirtualRouterID = id }
}

func identity(clusterID string) func(*infrav1.Metal3Cluster) {
	return func(cluster *infrav1.Metal3Cluster) { cluster.Spec.Ironic.ClusterID = clusterID }
}

func peers(list ...string) func(*infrav1.Metal3Cluster) {
	return func(cluster *infrav1.Metal3Cluster) { cluster.Spec.Ironic.VRRP.Peers = list }
}

func dhcp(begin, end string) func(*infrav1.Metal3Cluster) {
	return func(cluster *infrav1.Metal3Cluster) {
		cluster.Spec.Ironic.DHCP = &infrav1.IronicDHCP{RangeBegin: begin, RangeEnd: end}
	}
}

func extraRange(begin, end string) func(*infrav1.Metal3Cluster) {
	return func(cluster *infrav1.Metal3Cluster) {
		extra := infrav1.IronicDHCPRange{NetworkCIDR: "172.22.0.0/24", RangeBegin: begin, RangeEnd: end}
		cluster.Spec.Ironic.DHCP.ExtraRanges = append(cluster.Spec.Ironic.DHCP.ExtraRanges, extra)
	}
}

func apiServer(address string) func(*infrav1.Metal3Cluster) {
	return func(cluster *infrav1.Metal3Cluster) { cluster.Spec.ControlPlaneEndpoint.Host = address }
}

func withoutIronic(cluster *infrav1.Metal3Cluster) { cluster.Spec.Ironic = nil }

func inspected(name, machine string, addresses ...string) *bmov1alpha1.BareMetalHost {
	made := &bmov1alpha1.BareMetalHost{}
	made.Namespace, made.Name = "metal3", name
	made.Spec.ConsumerRef = &corev1.ObjectReference{
		APIVersion: infrav1.GroupVersion.String(), Kind: "Metal3Machine", Namespace: "metal3", Name: machine,
	}
	made.Status.HardwareDetails = &bmov1alpha1.HardwareDetails{Hostname: name}
	for _, address := range addresses {
		made.Status.HardwareDetails.NIC = append(made.Status.HardwareDetails.NIC, bmov1alpha1.NIC{IP: address})
	}
	return made
}

func reporting(name string, addresses ...string) *infrav1.Metal3Machine {
	made := &infrav1.Metal3Machine{}
	made.Name = name
	for _, address := range addresses {
		made.Status.Addresses = append(made.Status.Addresses,
			clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: address})
	}
	return made
}

const (
	chooseAnother = ": choose another one in spec.ironic.endpoint.virtualIPs"
	sameRouter    = " uses virtual router ID 50 on this network too: set spec.ironic.vrrp.virtualRouterID of one of the two " +
		"to an unused ID, and roll its control plane out"
)

// conflictCase has the surroundings of metal3/own, which has 172.22.0.2 and router ID 50, and the expected conflicts.
type conflictCase struct {
	reason string
	own    []func(*infrav1.Metal3Cluster)
	around controlplane.Surroundings
	want   []controlplane.Conflict
}

func judge(t *testing.T, cases map[string]conflictCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.around.Own = neighbour("own", "172.22.0.2", tc.own...)
			got := controlplane.Conflicts(tc.around)
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func address(messages ...string) []controlplane.Conflict {
	var conflicts []controlplane.Conflict
	for _, message := range messages {
		conflicts = append(conflicts, controlplane.Conflict{Reason: infrav1.VirtualIPTakenReason, Message: message})
	}
	return conflicts
}

func router(messages ...string) []controlplane.Conflict {
	var conflicts []controlplane.Conflict
	for _, message := range messages {
		conflicts = append(conflicts, controlplane.Conflict{Reason: infrav1.VirtualRouterIDTakenReason, Message: message})
	}
	return conflicts
}

func clusters(list ...*infrav1.Metal3Cluster) controlplane.Surroundings {
	var around controlplane.Surroundings
	for _, cluster := range list {
		around.Clusters = append(around.Clusters, *cluster)
	}
	return around
}

func TestRouterIDConflicts(t *testing.T) {
	const pool = "172.22.0.11"
	leaving := func(cluster *infrav1.Metal3Cluster) { cluster.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }
	moved := func(cluster *infrav1.Metal3Cluster) {
		cluster.Annotations = map[string]string{infrav1.DeleteForMoveAnnotation: ""}
	}
	elsewhere := func(cluster *infrav1.Metal3Cluster) { cluster.Namespace = "elsewhere" }
	far := func(cluster *infrav1.Metal3Cluster) {
		cluster.Spec.Ironic.Endpoint.VirtualIPs, cluster.Spec.Ironic.Endpoint.CIDRs = []string{"172.23.0.2"}, []string{"172.23.0.0/24"}
	}
	judge(t, map[string]conflictCase{
		"alone": {reason: "a cluster does not conflict with itself", around: clusters(neighbour("own", "172.22.0.2"))},
		"same ID": {
			reason: "they would fight",
			around: clusters(neighbour("own", "172.22.0.2"), neighbour("b", "172.22.0.3")),
			want:   router("Metal3Cluster metal3/b" + sameRouter),
		},
		"same name": {
			reason: "in another namespace it is another cluster",
			around: clusters(neighbour("own", "172.22.0.3", elsewhere)),
			want:   router("Metal3Cluster elsewhere/own" + sameRouter),
		},
		"several": {
			reason: "in one order, however they were read",
			around: clusters(neighbour("c", "172.22.0.4"), neighbour("b", "172.22.0.3")),
			want:   router("Metal3Cluster metal3/b"+sameRouter, "Metal3Cluster metal3/c"+sameRouter),
		},
		"same ID from the clusterID": {
			reason: "what nodes run with counts, not what is written",
			own:    []func(*infrav1.Metal3Cluster){routerID(int32(idOf(t, "chosen")))},
			around: clusters(neighbour("b", "172.22.0.3", routerID(0), identity("chosen"))),
			want:   router("Metal3Cluster metal3/b" + strings.Replace(sameRouter, "50", strconv.Itoa(idOf(t, "chosen")), 1)),
		},
		"copied identity": {
			reason: "one clusterID on two addresses is a mistake", around: clusters(neighbour("b", "172.22.0.3", identity("id-own"))),
			want: router("Metal3Cluster metal3/b" + sameRouter),
		},
		"another ID":      {reason: "that is what it is for", around: clusters(neighbour("b", "172.22.0.3", routerID(51)))},
		"another network": {reason: "its nodes do not hear it", around: clusters(neighbour("b", "172.22.0.3", far))},
		"peers of their own": {
			reason: "members talk to their peers alone",
			own:    []func(*infrav1.Metal3Cluster){peers("172.22.0.11", "172.22.0.12")},
			around: clusters(neighbour("b", "172.22.0.3", peers("172.22.0.21", "172.22.0.22"))),
		},
		"peers in common": {
			reason: "lists of all addresses that a node could get",
			own:    []func(*infrav1.Metal3Cluster){peers(pool, "172.22.0.12")},
			around: clusters(neighbour("b", "172.22.0.3", peers("172.22.0.12", pool))),
			want:   router("Metal3Cluster metal3/b" + sameRouter),
		},
		"being deleted": {reason: "its ID will be free", around: clusters(neighbour("b", "172.22.0.3", leaving))},
		"moved away":    {reason: "what is left is removed by clusterctl", around: clusters(neighbour("b", "172.22.0.3", moved))},
		"no endpoint":   {reason: "it speaks no VRRP of ours", around: clusters(neighbour("b", "", withoutIronic))},
	})
}

func TestAddressConflicts(t *testing.T) {
	apart := routerID(51)
	judge(t, map[string]conflictCase{
		"another endpoint": {
			reason: "one of the two would be away", around: clusters(neighbour("b", "172.22.0.2", apart)),
			want: address("Metal3Cluster metal3/b has 172.22.0.2 for its own Ironic endpoint" + chooseAnother),
		},
		"another endpoint with the same ID": {
			reason: "both are said, and the address comes first", around: clusters(neighbour("b", "172.22.0.2")),
			want: append(address("Metal3Cluster metal3/b has 172.22.0.2 for its own Ironic endpoint"+chooseAnother),
				router("Metal3Cluster metal3/b"+sameRouter)...),
		},
		"shared endpoint": {
			reason: "one clusterID, one address, one router: it is one endpoint",
			around: clusters(neighbour("b", "172.22.0.2", identity("id-own"))),
		},
		"shared endpoint with two IDs": {
			reason: "two groups of nodes would hold it", around: clusters(neighbour("b", "172.22.0.2", identity("id-own"), apart)),
			want: address("Metal3Cluster metal3/b has 172.22.0.2 and clusterID id-own too, in mode Multicast with virtual " +
				"router ID 51 instead of mode Multicast with 50, so that both hold it: give both the same spec.ironic.vrrp"),
		},
		"shared endpoint with two modes": {
			reason: "nor do these hear one another",
			around: clusters(neighbour("b", "172.22.0.2", identity("id-own"), peers("172.22.0.11", "172.22.0.12"))),
			want: address("Metal3Cluster metal3/b has 172.22.0.2 and clusterID id-own too, in mode Unicast with virtual " +
				"router ID 50 instead of mode Multicast with 50, so that both hold it: give both the same spec.ironic.vrrp"),
		},
		"API server of another cluster": {
			reason: "with an Ironic endpoint or without",
			around: clusters(neighbour("b", "172.22.0.3", apart, apiServer("172.22.0.2")), neighbour("c", "", withoutIronic, apiServer("172.22.0.2"))),
			want: address("Metal3Cluster metal3/b has its API server on 172.22.0.2"+chooseAnother,
				"Metal3Cluster metal3/c has its API server on 172.22.0.2"+chooseAnother),
		},
		"own API server": {
			reason: "it must not go where Ironic is healthy", around: controlplane.Surroundings{APIServer: "172.22.0.2"},
			want: address("The API server of Metal3Cluster metal3/own answers on 172.22.0.2 too" + chooseAnother),
		},
		"API server with a name": {reason: "names are not resolved", around: controlplane.Surroundings{APIServer: "172-22-0-2.example"}},
		"handed out": {
			reason: "to any machine of the network", around: clusters(neighbour("b", "172.22.0.3", apart, dhcp("172.22.0.2", "172.22.0.2"))),
			want: address("Metal3Cluster metal3/b hands 172.22.0.2 out with spec.ironic.dhcp" + chooseAnother),
		},
		"handed out by another range": {
			reason: "each range hands out",
			around: clusters(neighbour("b", "172.22.0.3", apart, dhcp("172.22.0.3", "172.22.0.9"), extraRange("172.22.0.1", "172.22.0.2"))),
			want:   address("Metal3Cluster metal3/b hands 172.22.0.2 out with spec.ironic.dhcp" + chooseAnother),
		},
		"handed out beside it": {
			reason: "the ends count, and nothing beyond them",
			around: clusters(neighbour("b", "172.22.0.3", apart, dhcp("172.22.0.3", "172.22.0.9")),
				neighbour("c", "172.22.0.4", apart, dhcp("172.21.0.3", "172.22.0.1"))),
		},
		"handed out in another family": {
			reason: "addresses of both are ordered, and must not be compared",
			own: []func(*infrav1.Metal3Cluster){func(cluster *infrav1.Metal3Cluster) {
				cluster.Spec.Ironic.Endpoint.VirtualIPs = []string{"fd00::2"}
			}},
			around: clusters(neighbour("b", "172.22.0.3", apart, dhcp("0.0.0.1", "fd00::9"))),
		},
		"node of another cluster": {
			reason: "a peer is the own address of a node",
			around: clusters(neighbour("b", "172.22.0.3", apart, peers("172.22.0.2", "172.22.0.11"))),
			want: address("Metal3Cluster metal3/b has 172.22.0.2 among spec.ironic.vrrp.peers, as the own address of a node" +
				chooseAnother),
		},
		"mistakes": {
			reason: "other checks report what cannot be read",
			own: []func(*infrav1.Metal3Cluster){func(cluster *infrav1.Metal3Cluster) {
				cluster.Spec.Ironic.Endpoint = infrav1.IronicEndpoint{VirtualIPs: []string{"x"}, CIDRs: []string{"y"}}
			}},
			around: clusters(neighbour("b", "x", dhcp("a", "b"), apiServer("x"))),
		},
	})
}

func TestInventoryConflicts(t *testing.T) {
	const again = " when it was inspected: remove the address from it and have it inspected again, or choose another one in " +
		"spec.ironic.endpoint.virtualIPs"
	const machine = ": give its host another address, or choose another one in spec.ironic.endpoint.virtualIPs"
	judge(t, map[string]conflictCase{
		"host": {
			reason: "a host says it once, however many interfaces it has, and its machine says it no more",
			around: controlplane.Surroundings{
				Hosts:    []*bmov1alpha1.BareMetalHost{inspected("h", "m", "", "172.22.0.9", "172.22.0.2", "172.22.0.2")},
				Machines: []*infrav1.Metal3Machine{reporting("m", "172.22.0.2")},
			},
			want: address("Host h had 172.22.0.2" + again),
		},
		"machine": {
			reason: "the hardware of its host was removed, or it is another host",
			around: controlplane.Surroundings{
				Hosts:    []*bmov1alpha1.BareMetalHost{inspected("h", "other", "172.22.0.2"), {}},
				Machines: []*infrav1.Metal3Machine{reporting("m", "172.22.0.9", "172.22.0.2")},
			},
			want: address("Host h had 172.22.0.2"+again, "Metal3Machine m has 172.22.0.2"+machine),
		},
		"others": {
			reason: "addresses beside it, and names",
			around: controlplane.Surroundings{
				Hosts:    []*bmov1alpha1.BareMetalHost{inspected("h", "m", "172.22.0.3", "fe80::2%eth0")},
				Machines: []*infrav1.Metal3Machine{reporting("m", "172.22.0.20", "host-2")},
			},
		},
		"written in another way": {
			reason: "IPv6 has many ways to write one address",
			own: []func(*infrav1.Metal3Cluster){func(cluster *infrav1.Metal3Cluster) {
				cluster.Spec.Ironic.Endpoint.VirtualIPs = []string{"fd00:0:0::2"}
			}},
			around: controlplane.Surroundings{Hosts: []*bmov1alpha1.BareMetalHost{inspected("h", "m", "fd00::0002")}},
			want:   address("Host h had fd00::2" + again),
		},
	})
}

func TestChooseRouterID(t *testing.T) {
	alone := int32(idOf(t, "id-own"))
	young := func(cluster *infrav1.Metal3Cluster) { cluster.CreationTimestamp = metav1.Unix(1_700_000_000, 0) }
	cases := map[string]struct {
		reason string
		others []*infrav1.Metal3Cluster
		want   int32
	}{
		"alone":          {"as it would be without looking around", nil, alone},
		"itself":         {"an older copy of a cluster does not conflict with it", []*infrav1.Metal3Cluster{neighbour("own", "172.22.0.2", routerID(alone))}, alone},
		"taken":          {"another one has it", []*infrav1.Metal3Cluster{neighbour("b", "172.22.0.3", routerID(alone))}, alone + 1},
		"taken by young": {"what is written counts", []*infrav1.Metal3Cluster{neighbour("b", "172.22.0.3", routerID(alone), young)}, alone + 1},
		"contested by an equal": {
			"of equal age, names decide",
			[]*infrav1.Metal3Cluster{neighbour("b", "172.22.0.3", routerID(0), identity("id-own"))}, alone + 1,
		},
		"contested by young": {
			"the older one chooses first",
			[]*infrav1.Metal3Cluster{neighbour("b", "172.22.0.3", routerID(0), identity("id-own"), young)}, alone,
		},
		"no endpoint": {"it has no ID", []*infrav1.Metal3Cluster{neighbour("b", "", withoutIronic)}, alone},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			around := clusters(tc.others...)
			around.Own = neighbour("own", "172.22.0.2", routerID(0))
			if got := controlplane.ChooseRouterID(around); got != tc.want {
				t.Errorf("%s: got %d, want %d", tc.reason, got, tc.want)
			}
		})
	}
}

func idOf(t *testing.T, clusterID string) int {
	t.Helper()
	id, err := vip.RouterID(clusterID)
	if err != nil {
		t.Fatal(err)
	}
	return id
}
