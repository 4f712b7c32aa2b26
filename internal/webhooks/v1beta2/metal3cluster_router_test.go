package v1beta2_test

import (
	"testing"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks/v1beta2"
)

func routerID(id int32) func(*infrav1.Ironic) {
	return func(ironic *infrav1.Ironic) { ironic.VRRP.VirtualRouterID = id }
}

// TestMetal3ClusterKeepsItsRouterID takes the ID out of a manifest that is applied again.
func TestMetal3ClusterKeepsItsRouterID(t *testing.T) {
	cases := map[string]struct {
		reason       string
		stored, sent *infrav1.Metal3Cluster
		want         int32
	}{
		"left out": {
			"nodes run with it", altered(validCluster, ironic(routerID(50))), altered(validCluster, ironic()), 50,
		},
		"changed":     {"a person wants it so", altered(validCluster, ironic(routerID(50))), altered(validCluster, ironic(routerID(51))), 51},
		"never there": {"the provider chooses it", altered(validCluster, ironic()), altered(validCluster, ironic()), 0},
		"new":         {"there is nothing to keep", validCluster(), altered(validCluster, ironic()), 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if err := v1beta2.Metal3ClusterDefaulter(dice).Default(updating(t, c.stored), c.sent); err != nil {
				t.Fatal(err)
			}
			if got := c.sent.Spec.Ironic.VRRP.VirtualRouterID; got != c.want {
				t.Errorf("%s: got %d, want %d", c.reason, got, c.want)
			}
		})
	}
	removed := validCluster()
	if err := v1beta2.Metal3ClusterDefaulter(dice).Default(
		updating(t, altered(validCluster, ironic(routerID(50)))), removed); err != nil || removed.Spec.Ironic != nil {
		t.Errorf("a removed endpoint comes back: %+v, %v", removed.Spec.Ironic, err)
	}
}

func TestMetal3ClusterRouterIDUpdate(t *testing.T) {
	judge(t, v1beta2.Metal3ClusterValidator(), map[string]step[*infrav1.Metal3Cluster]{
		"changed": {
			reason: "the old nodes hold the VIP as well",
			before: altered(validCluster, ironic(routerID(50))), after: altered(validCluster, ironic(routerID(51))),
			warnings: []string{"spec.ironic.vrrp.virtualRouterID: goes from 50 to 51; nodes with the old one do not hear the new " +
				"ones, and both would hold the VIP: demote the old nodes or replace all of them, and give the Ironic of the " +
				"management cluster the same ID"},
		},
		"address of the API server stored": {
			reason: "what was stored before it was refused can be changed otherwise",
			before: altered(validCluster, ironic(), endpoint("172.22.0.2", 6443)),
			after:  altered(validCluster, ironic(routerID(50)), endpoint("172.22.0.2", 6443)),
		},
	})
}
