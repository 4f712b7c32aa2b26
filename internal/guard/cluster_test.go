package guard_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"

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

// newCluster starts a node for each name, the management side for m, after the function has done what there is to do
// before a guard starts.
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

// known returns the names of the nodes that the Ironic of an address knows.
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

// knows returns nothing when the Ironic of an address answers and knows just these nodes.
func (c *cluster) knows(client *gophercloud.ServiceClient, want ...string) func() string {
	return func() string {
		names, err := c.known(client)
		if err != nil {
			return err.Error()
		}
		return differs(strings.Join(want, ","), strings.Join(names, ","))
	}
}

// serves returns nothing when the Ironic of a node, and no other, answers a client on both addresses.
func (c *cluster) serves(want *node) func() string {
	client := c.client.client()
	client.Timeout = 5 * time.Second
	return func() string {
		return differs(want.name, answering(client, vip4)) + differs(want.name, answering(client, vip6))
	}
}

// holder waits until one of the nodes has both addresses, and the others have none. Ranks lie so few milliseconds apart
// that a busy machine may turn them around.
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

// without are the others.
func (c *cluster) without(one *node) []*node {
	return slices.DeleteFunc(slices.Clone(c.all), func(n *node) bool { return n == one })
}

// The machines, by their names, and the ports of their boards.
const (
	firstMachine, firstBoard   = "metal3~host-0", 8000
	secondMachine, secondBoard = "metal3~host-1", 8001
)

// enrol makes a machine known to the holder.
func (c *cluster) enrol(name string, board int) *nodes.Node {
	c.t.Helper()
	node, err := nodes.Create(c.t.Context(), c.api, nodes.CreateOpts{
		Driver: "lab", Name: name, DriverInfo: map[string]any{
			"lab_address":  fmt.Sprintf("http://%s:%d", c.client.address4, board),
			"lab_username": "operator", "lab_password": "secret",
		},
	}).Extract()
	must(c.t, err)
	c.change(name, nodes.TargetManage, nodes.Manageable)
	return node
}

// beginDeploy has the holder bring a machine to work, which takes deploySeconds at least.
func (c *cluster) beginDeploy(name string, board int) *nodes.Node {
	c.t.Helper()
	sum := sha256.Sum256([]byte(imageContent))
	node := c.enrol(name, board)
	c.change(name, nodes.TargetProvide, nodes.Available)
	_, err := nodes.Update(c.t.Context(), c.api, node.UUID, nodes.UpdateOpts{nodes.UpdateOperation{
		Op: nodes.AddOp, Path: "/instance_info", Value: map[string]any{
			"image_source":       fmt.Sprintf("http://%s:%d/image", c.client.address4, board),
			"image_os_hash_algo": "sha256", "image_os_hash_value": hex.EncodeToString(sum[:]),
		},
	}}).Extract()
	must(c.t, err)
	c.change(name, nodes.TargetActive, nodes.Deploying)
	return node
}

// deploy brings a machine to work, through the holder.
func (c *cluster) deploy(board *board) *nodes.Node {
	c.t.Helper()
	eventually(c.t, generous, "Ironic answers on the address", c.knows(c.api))
	node := c.beginDeploy(firstMachine, firstBoard)
	c.reaches(firstMachine, nodes.Active)
	if sent := board.sent(); !slices.Contains(sent, "PUT /disk") || sent[len(sent)-1] != "power on" {
		c.t.Errorf("the deployment was %q", sent)
	}
	return node
}

// change asks for a provision state of a node and waits for it.
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
