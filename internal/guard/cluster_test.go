package guard_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/ports"
	"k8s.io/utils/ptr"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
)

// cluster is some nodes with the real Ironic and dnsmasq, and a client.
type cluster struct {
	*lab
	all     []*node
	client  *node
	api     *gophercloud.ServiceClient
	dnsmasq string
}

// newCluster starts a node for each name after it calls prepare. The node m is the management cluster.
func newCluster(t *testing.T, prepare func(*node), names ...string) *cluster {
	t.Helper()
	root := realIronic(t)
	c := &cluster{dnsmasq: requireDNSMasq(t), lab: newLab(t)}
	for _, name := range names {
		c.all = append(c.all, c.addNode(name))
	}
	c.client = c.addNode("client")
	for _, n := range c.all {
		role := vip.ControlPlane
		if n.name == "m" {
			role = vip.Management
		}
		n.configure(role, c.all...)
		prepare(n)
		n.startAPIServer()
		n.startKubelet(root)
		n.start()
		n.serveDHCP(c.dnsmasq)
	}
	c.api = c.client.api(vip4)
	return c
}

// known returns the names of the nodes that are registered in an Ironic.
func (c *cluster) known(client *gophercloud.ServiceClient) ([]string, error) {
	pages, err := nodes.List(client, nodes.ListOpts{Fields: []string{"uuid", "name"}}).AllPages(c.t.Context())
	if err != nil {
		return nil, err
	}
	found, err := nodes.ExtractNodes(pages)
	names := []string{}
	for i := range found {
		names = append(names, found[i].Name)
	}
	return names, err
}

// registered returns nothing when an Ironic has registered exactly these nodes.
func (c *cluster) registered(client *gophercloud.ServiceClient, want ...string) func() string {
	return func() string {
		names, err := c.known(client)
		if err != nil {
			return err.Error()
		}
		return differs(strings.Join(want, ","), strings.Join(names, ","))
	}
}

// serves returns nothing when only the Ironic of a node answers a client on both VIPs.
func (c *cluster) serves(want *node) func() string {
	client := c.client.client()
	client.Timeout = 5 * time.Second
	return func() string {
		return differs(want.name, answering(client, vip4)) + differs(want.name, answering(client, vip6))
	}
}

// holder waits until one of the nodes has both VIPs, and the others have none. The ranks differ by few milliseconds,
// so a busy machine may elect another node.
func (c *cluster) holder(what string, among ...*node) *node {
	c.t.Helper()
	var found *node
	eventually(c.t, generous, what, oneAtMost(func() string {
		for _, n := range among {
			if found = n; heldBy(n, among...)() == "" {
				return ""
			}
		}
		return fmt.Sprintf("held by %q", holders(vip4, among...))
	}, among...))
	return found
}

// settled waits until one node has both VIPs for a time, and the others have none. A guard notices late that Ironic has
// ended, so its node may take them over for a moment.
func (c *cluster) settled(what string, span time.Duration) *node {
	c.t.Helper()
	found := c.holder(what, c.all...)
	eventually(c.t, generous, what, lasting(span, oneAtMost(func() string {
		left := heldBy(found, c.all...)()
		if left != "" {
			found = c.holder(what, c.all...)
		}
		return left
	}, c.all...)))
	return found
}

// without returns the other nodes.
func (c *cluster) without(one *node) []*node {
	return slices.DeleteFunc(slices.Clone(c.all), func(n *node) bool { return n == one })
}

// enrol registers a computer in Ironic of the holder, without cleaning.
func (c *cluster) enrol(of *computed) *nodes.Node {
	c.t.Helper()
	options := of.node()
	options.AutomatedClean = ptr.To(false)
	node, err := nodes.Create(c.t.Context(), c.api, options).Extract()
	must(c.t, err)
	_, err = ports.Create(c.t.Context(), c.api, ports.CreateOpts{NodeUUID: node.UUID, Address: of.mac}).Extract()
	must(c.t, err)
	c.change(node.Name, nodes.TargetManage, nodes.Manageable)
	_, err = nodes.Update(c.t.Context(), c.api, node.UUID, nodes.UpdateOpts{nodes.UpdateOperation{
		Op: nodes.AddOp, Path: "/instance_info", Value: of.bmcs.image(),
	}}).Extract()
	must(c.t, err)
	return node
}

// beginDeploy starts the deployment of a computer.
func (c *cluster) beginDeploy(of *computed) *nodes.Node {
	c.t.Helper()
	node := c.enrol(of)
	c.change(node.Name, nodes.TargetProvide, nodes.Available)
	must(c.t, nodes.ChangeProvisionState(c.t.Context(), c.api, node.UUID,
		nodes.ProvisionStateOpts{Target: nodes.TargetActive}).ExtractErr())
	return node
}

// deploy deploys a computer.
func (c *cluster) deploy(of *computed) *nodes.Node {
	c.t.Helper()
	eventually(c.t, generous, "Ironic answers at the VIP", c.registered(c.api))
	node := c.beginDeploy(of)
	c.reaches(node.Name, nodes.Active)
	if found := differs("boot ramdisk, write image, off, boot disk", of.Happened()); found != "" {
		c.t.Errorf("the machine did %s", found)
	}
	return node
}

// change requests a provision state of a node and waits for it.
func (c *cluster) change(name string, target nodes.TargetProvisionState, want nodes.ProvisionState) {
	c.t.Helper()
	must(c.t, nodes.ChangeProvisionState(c.t.Context(), c.api, name, nodes.ProvisionStateOpts{Target: target}).ExtractErr())
	c.reaches(name, want)
}

// reaches waits for a provision state of a node.
func (c *cluster) reaches(name string, want nodes.ProvisionState) {
	c.t.Helper()
	eventually(c.t, time.Minute, string(want), func() string {
		node, err := nodes.Get(c.t.Context(), c.api, name).Extract()
		switch {
		case err != nil:
			return err.Error()
		case node.ProvisionState == string(want):
			return ""
		default:
			return fmt.Sprintf("%s: %s", node.ProvisionState, node.LastError)
		}
	})
}
