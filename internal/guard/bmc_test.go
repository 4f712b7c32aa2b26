package guard_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/bmc"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/computer"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/ironic"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/network"
)

// bmcs are the BMCs of computers on the network of a node, and the server of their image.
type bmcs struct {
	*bmc.Server
	node    *node
	network *computer.Network
}

// imageName is the image of all computers.
const imageName = "system"

// startBMCs serves until the test ends.
func (n *node) startBMCs() *bmcs {
	t := n.lab.t
	t.Helper()
	b := &bmcs{node: n, network: computer.NewNetworkAt(n.address4.String(), func(do func() error) error {
		return within(n.space, do)
	})}
	var err error
	b.Server, err = bmc.Start(t.Context(), b.network)
	must(t, err)
	t.Cleanup(func() { _ = b.Close() })
	must(t, b.AddImage(imageName, "0123456789abcdef"))
	return b
}

// image returns the image in the format of Ironic.
func (b *bmcs) image() map[string]any {
	return map[string]any{
		"image_source":       b.network.Actual(bmc.ImageURL(imageName)),
		"image_os_hash_algo": "sha256", "image_os_hash_value": b.network.Actual(bmc.ChecksumURL(imageName)),
	}
}

// changes counts the requests to the BMCs that change a computer.
func (b *bmcs) changes() int {
	count := 0
	for _, operation := range b.Operations() {
		if operation.Changes() {
			count++
		}
	}
	return count
}

// computed is a computer with its BMC.
type computed struct {
	*computer.Computer
	bmcs *bmcs
	name string
	mac  string
}

// Credentials of the BMCs.
const (
	bmcUser     = "operator"
	bmcPassword = "secret"
)

// compute adds a computer that is off, until the test ends. Only one agent at a time has the address of the node.
func (b *bmcs) compute(number byte) *computed {
	t := b.node.lab.t
	t.Helper()
	made := &computed{bmcs: b, name: fmt.Sprintf("host-%d", number), mac: network.HardwareAddress(number).String()}
	made.Computer = computer.New(computer.Options{
		MAC: made.mac, Address: b.node.address4, Network: b.network, Log: slog.New(slog.DiscardHandler),
		Failed: func(err error) { t.Errorf("the agent of %s ended: %v", made.name, err) },
	})
	t.Cleanup(func() { _ = made.PowerOff(context.Background()) })
	must(t, b.Add(made.name, bmcUser, bmcPassword, made))
	return made
}

// node returns the computer in the format of Ironic.
func (c *computed) node() nodes.CreateOpts {
	server, system := bmc.RedfishAddress(c.name)
	return ironic.RedfishNode("metal3~"+c.name, ironic.BMC{
		Address: c.bmcs.network.Actual(server), System: system, Username: bmcUser, Password: bmcPassword,
	})
}
