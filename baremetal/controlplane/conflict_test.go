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

// neighbour returns a Metal3Cluster with an endpoint on 172.22.0.0/24 and router ID 50.
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

// routerID sets the virtual router ID. Zero means the default of the clusterID.
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

func checkConflicts(t *testing.T, cases map[string]conflictCase) {
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
	checkConflicts(t, map[string]conflictCase{
		"alone": {reason: "a cluster does not conflict with itself", around: clusters(neighbour("own", "172.22.0.2"))},
		"same ID": {
			reason: "both clusters would send advertisements with this ID",
			around: clusters(neighbour("own", "172.22.0.2"), neighbour("b", "172.22.0.3")),
			want:   router("Metal3Cluster metal3/b" + sameRouter),
		},
		"same name": {
			reason: "a cluster in another namespace is another cluster",
			around: clusters(neighbour("own", "172.22.0.3", elsewhere)),
			want:   router("Metal3Cluster elsewhere/own" + sameRouter),
		},
		"several": {
			reason: "the order of the messages does not depend on the order of the clusters",
			around: clusters(neighbour("c", "172.22.0.4"), neighbour("b", "172.22.0.3")),
			want:   router("Metal3Cluster metal3/b"+sameRouter, "Metal3Cluster metal3/c"+sameRouter),
		},
		"same ID from the clusterID": {
			reason: "the default of the clusterID counts if no ID is set",
			own:    []func(*infrav1.Metal3Cluster){routerID(int32(idOf(t, "chosen")))},
			around: clusters(neighbour("b", "172.22.0.3", routerID(0), identity("chosen"))),
			want:   router("Metal3Cluster metal3/b" + strings.Replace(sameRouter, "50", strconv.Itoa(idOf(t, "chosen")), 1)),
		},
		"copied clusterID": {
			reason: "two endpoints must not have one clusterID", around: clusters(neighbour("b", "172.22.0.3", identity("id-own"))),
			want: router("Metal3Cluster metal3/b" + sameRouter),
		},
		"another ID":      {reason: "the IDs differ", around: clusters(neighbour("b", "172.22.0.3", routerID(51)))},
		"another network": {reason: "advertisements do not reach the other network", around: clusters(neighbour("b", "172.22.0.3", far))},
		"separate peers": {
			reason: "members send only to their peers",
			own:    []func(*infrav1.Metal3Cluster){peers("172.22.0.11", "172.22.0.12")},
			around: clusters(neighbour("b", "172.22.0.3", peers("172.22.0.21", "172.22.0.22"))),
		},
		"peers in common": {
			reason: "both list all possible addresses of nodes",
			own:    []func(*infrav1.Metal3Cluster){peers(pool, "172.22.0.12")},
			around: clusters(neighbour("b", "172.22.0.3", peers("172.22.0.12", pool))),
			want:   router("Metal3Cluster metal3/b" + sameRouter),
		},
		"being deleted": {reason: "its ID will be unused", around: clusters(neighbour("b", "172.22.0.3", leaving))},
		"moved away":    {reason: "clusterctl deletes the remaining Metal3Cluster", around: clusters(neighbour("b", "172.22.0.3", moved))},
		"no endpoint":   {reason: "the cluster runs no VRRP of this provider", around: clusters(neighbour("b", "", withoutIronic))},
	})
}

func TestAddressConflicts(t *testing.T) {
	apart := routerID(51)
	checkConflicts(t, map[string]conflictCase{
		"another endpoint": {
			reason: "only one endpoint could use the VIP", around: clusters(neighbour("b", "172.22.0.2", apart)),
			want: address("Metal3Cluster metal3/b has 172.22.0.2 for its own Ironic endpoint" + chooseAnother),
		},
		"another endpoint with the same ID": {
			reason: "both conflicts are reported, the VIP first", around: clusters(neighbour("b", "172.22.0.2")),
			want: append(address("Metal3Cluster metal3/b has 172.22.0.2 for its own Ironic endpoint"+chooseAnother),
				router("Metal3Cluster metal3/b"+sameRouter)...),
		},
		"shared endpoint": {
			reason: "the clusters share an endpoint: clusterID, VIP and router are the same",
			around: clusters(neighbour("b", "172.22.0.2", identity("id-own"))),
		},
		"shared endpoint with two IDs": {
			reason: "two groups of nodes would hold the VIP", around: clusters(neighbour("b", "172.22.0.2", identity("id-own"), apart)),
			want: address("Metal3Cluster metal3/b has 172.22.0.2 and clusterID id-own too, in mode Multicast with virtual " +
				"router ID 51 instead of mode Multicast with 50, so that both hold it: give both the same spec.ironic.vrrp"),
		},
		"shared endpoint with two modes": {
			reason: "nodes in different modes receive no advertisements of each other",
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
			reason: "the VIP of the API server must not follow a healthy Ironic", around: controlplane.Surroundings{APIServer: "172.22.0.2"},
			want: address("The API server of Metal3Cluster metal3/own answers on 172.22.0.2 too" + chooseAnother),
		},
		"API server with a name": {reason: "names are not resolved", around: controlplane.Surroundings{APIServer: "172-22-0-2.example"}},
		"handed out": {
			reason: "DHCP would assign the VIP to a machine", around: clusters(neighbour("b", "172.22.0.3", apart, dhcp("172.22.0.2", "172.22.0.2"))),
			want: address("Metal3Cluster metal3/b hands 172.22.0.2 out with spec.ironic.dhcp" + chooseAnother),
		},
		"handed out by another range": {
			reason: "each range counts",
			around: clusters(neighbour("b", "172.22.0.3", apart, dhcp("172.22.0.3", "172.22.0.9"), extraRange("172.22.0.1", "172.22.0.2"))),
			want:   address("Metal3Cluster metal3/b hands 172.22.0.2 out with spec.ironic.dhcp" + chooseAnother),
		},
		"handed out beside it": {
			reason: "the ranges end beside the VIP",
			around: clusters(neighbour("b", "172.22.0.3", apart, dhcp("172.22.0.3", "172.22.0.9")),
				neighbour("c", "172.22.0.4", apart, dhcp("172.21.0.3", "172.22.0.1"))),
		},
		"handed out in another family": {
			reason: "addresses of different families must not be compared",
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
			reason: "other checks report invalid values",
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
	checkConflicts(t, map[string]conflictCase{
		"host": {
			reason: "a host is reported once, and its machine is omitted",
			around: controlplane.Surroundings{
				Hosts:    []*bmov1alpha1.BareMetalHost{inspected("h", "m", "", "172.22.0.9", "172.22.0.2", "172.22.0.2")},
				Machines: []*infrav1.Metal3Machine{reporting("m", "172.22.0.2")},
			},
			want: address("Host h had 172.22.0.2" + again),
		},
		"machine": {
			reason: "the host of the machine has no hardware details",
			around: controlplane.Surroundings{
				Hosts:    []*bmov1alpha1.BareMetalHost{inspected("h", "other", "172.22.0.2"), {}},
				Machines: []*infrav1.Metal3Machine{reporting("m", "172.22.0.9", "172.22.0.2")},
			},
			want: address("Host h had 172.22.0.2"+again, "Metal3Machine m has 172.22.0.2"+machine),
		},
		"others": {
			reason: "other addresses and names do not conflict",
			around: controlplane.Surroundings{
				Hosts:    []*bmov1alpha1.BareMetalHost{inspected("h", "m", "172.22.0.3", "fe80::2%eth0")},
				Machines: []*infrav1.Metal3Machine{reporting("m", "172.22.0.20", "host-2")},
			},
		},
		"written in another way": {
			reason: "an IPv6 address has several spellings",
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
		"alone":          {"the default of the clusterID", nil, alone},
		"itself":         {"an older copy of a cluster does not conflict with it", []*infrav1.Metal3Cluster{neighbour("own", "172.22.0.2", routerID(alone))}, alone},
		"taken":          {"another cluster has the default ID", []*infrav1.Metal3Cluster{neighbour("b", "172.22.0.3", routerID(alone))}, alone + 1},
		"taken by young": {"an ID in the specification counts", []*infrav1.Metal3Cluster{neighbour("b", "172.22.0.3", routerID(alone), young)}, alone + 1},
		"contested by an equal": {
			"the name decides between clusters of the same age",
			[]*infrav1.Metal3Cluster{neighbour("b", "172.22.0.3", routerID(0), identity("id-own"))}, alone + 1,
		},
		"contested by young": {
			"the older cluster chooses first",
			[]*infrav1.Metal3Cluster{neighbour("b", "172.22.0.3", routerID(0), identity("id-own"), young)}, alone,
		},
		"no endpoint": {"the other cluster has no ID", []*infrav1.Metal3Cluster{neighbour("b", "", withoutIronic)}, alone},
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
