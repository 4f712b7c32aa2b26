package v1beta2_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks/v1beta2"
)

func routerID(id int32) func(*infrav1.Ironic) {
	return func(ironic *infrav1.Ironic) { ironic.VRRP.VirtualRouterID = id }
}

// TestMetal3ClusterKeepsItsRouterID applies a manifest without the ID again.
func TestMetal3ClusterKeepsItsRouterID(t *testing.T) {
	cases := map[string]struct {
		reason       string
		stored, sent *infrav1.Metal3Cluster
		want         int32
	}{
		"left out": {
			"nodes use the ID", altered(validCluster, ironic(routerID(50))), altered(validCluster, ironic()), 50,
		},
		"changed":     {"a user changes the ID", altered(validCluster, ironic(routerID(50))), altered(validCluster, ironic(routerID(51))), 51},
		"never there": {"the provider chooses it", altered(validCluster, ironic()), altered(validCluster, ironic()), 0},
		"new":         {"no ID was set", validCluster(), altered(validCluster, ironic()), 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if err := v1beta2.Metal3ClusterDefaulter(fixedBytes).Default(updating(t, c.stored), c.sent); err != nil {
				t.Fatal(err)
			}
			if got := c.sent.Spec.Ironic.VRRP.VirtualRouterID; got != c.want {
				t.Errorf("%s: got %d, want %d", c.reason, got, c.want)
			}
		})
	}
	removed := validCluster()
	if err := v1beta2.Metal3ClusterDefaulter(fixedBytes).Default(
		updating(t, altered(validCluster, ironic(routerID(50)))), removed); err != nil || removed.Spec.Ironic != nil {
		t.Errorf("a removed endpoint is restored: %+v, %v", removed.Spec.Ironic, err)
	}
}

// TestMetal3ClusterRemovesIronic sends the fields of spec.ironic that server-side apply leaves when its user removes it.
func TestMetal3ClusterRemovesIronic(t *testing.T) {
	only := func(changes ...func(*infrav1.Ironic)) *infrav1.Metal3Cluster {
		empty := func(ironic *infrav1.Ironic) { *ironic = infrav1.Ironic{} }
		return altered(validCluster, ironic(append([]func(*infrav1.Ironic){empty}, changes...)...))
	}
	stored := altered(validCluster, ironic(routerID(50)))
	cases := map[string]struct {
		reason       string
		stored, sent *infrav1.Metal3Cluster
		removed      bool
	}{
		"router ID":    {"the manager chose it", stored, only(routerID(50)), true},
		"clusterID":    {"the provider set it", stored, only(clusterID("3f9c1a7e")), true},
		"both":         {"the provider set both", stored, only(routerID(50), clusterID("3f9c1a7e")), true},
		"nothing":      {"no field has an owner", stored, only(), true},
		"another mode": {"a user owns the mode", stored, only(func(i *infrav1.Ironic) { i.VRRP.Mode = infrav1.VRRPUnicast }), false},
		"new":          {"the schema refuses an endpoint without addresses", validCluster(), only(routerID(50)), false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if err := v1beta2.Metal3ClusterDefaulter(fixedBytes).Default(updating(t, c.stored), c.sent); err != nil {
				t.Fatal(err)
			}
			if removed := c.sent.Spec.Ironic == nil; removed != c.removed {
				t.Errorf("%s: removed %t, want %t", c.reason, removed, c.removed)
			}
		})
	}
}

// TestMetal3ClusterIronicReturns removes spec.ironic and adds it again.
func TestMetal3ClusterIronicReturns(t *testing.T) {
	const unidentified = ""
	annotated := func(identity string) func(*infrav1.Metal3Cluster) {
		return func(cluster *infrav1.Metal3Cluster) {
			cluster.Annotations = map[string]string{infrav1.IronicIdentityAnnotation: identity}
		}
	}
	stored := altered(validCluster, ironic(routerID(50)))
	removed := altered(validCluster, annotated("3f9c1a7e/50"))
	cases := map[string]struct {
		reason             string
		before, sent, want *infrav1.Metal3Cluster
	}{
		"removed": {"nodes use the identity", stored, validCluster(), removed},
		"removed before an ID was chosen": {
			"nodes use the default of the clusterID",
			altered(validCluster, ironic()), validCluster(), altered(validCluster, annotated("3f9c1a7e/0")),
		},
		"still removed": {"kubectl replace sends no annotation", removed, validCluster(), removed},
		"moved":         {"clusterctl move creates the object", &infrav1.Metal3Cluster{}, removed.DeepCopy(), removed},
		"returned": {
			"running nodes use the identity",
			removed, altered(validCluster, ironic(clusterID(unidentified))), stored,
		},
		"returned by an apply": {
			"the annotation has no owner",
			removed, altered(validCluster, annotated("3f9c1a7e/50"), ironic(clusterID(unidentified))),
			altered(validCluster, func(c *infrav1.Metal3Cluster) { c.Annotations = map[string]string{} }, ironic(routerID(50))),
		},
		"restored from a backup": {
			"the object is created",
			&infrav1.Metal3Cluster{}, altered(validCluster, annotated("3f9c1a7e/50"), ironic(clusterID(unidentified))),
			altered(validCluster, func(c *infrav1.Metal3Cluster) { c.Annotations = map[string]string{} }, ironic(routerID(50))),
		},
		"another identity": {
			"a user sets both",
			removed, altered(validCluster, ironic(clusterID("other"), routerID(51))),
			altered(validCluster, ironic(clusterID("other"), routerID(51))),
		},
		"another clusterID": {
			"the router ID is that of running nodes",
			removed, altered(validCluster, ironic(clusterID("other"))),
			altered(validCluster, ironic(clusterID("other"), routerID(50))),
		},
		"an unreadable annotation": {
			"a new identity is chosen",
			altered(validCluster, annotated("/")), altered(validCluster, ironic(clusterID(unidentified))),
			altered(validCluster, ironic(clusterID("ab000f9c"))),
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if err := v1beta2.Metal3ClusterDefaulter(fixedBytes).Default(updating(t, c.before), c.sent); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, c.sent); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

func TestMetal3ClusterRouterIDUpdate(t *testing.T) {
	judge(t, v1beta2.Metal3ClusterValidator(), map[string]step[*infrav1.Metal3Cluster]{
		"changed": {
			reason: "the old nodes would hold the VIP too",
			before: altered(validCluster, ironic(routerID(50))), after: altered(validCluster, ironic(routerID(51))),
			warnings: []string{"spec.ironic.vrrp.virtualRouterID: changes from 50 to 51; nodes with the old ID ignore the " +
				"advertisements of new nodes, and two nodes would hold the VIP: demote the old nodes or replace all of them, and " +
				"set the same ID for the Ironic of the management cluster"},
		},
		"address of the API server stored": {
			reason: "an existing error may stay",
			before: altered(validCluster, ironic(), endpoint("172.22.0.2", 6443)),
			after:  altered(validCluster, ironic(routerID(50)), endpoint("172.22.0.2", 6443)),
		},
	})
}
