package ironicapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/drivers"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/ports"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/hostoperator/step"
)

var (
	// ErrUnreachable means that nobody answers properly: no network, no trust, wrong credentials for Ironic, an API
	// without a conductor. It says nothing about any host.
	ErrUnreachable = errors.New("no Ironic that can be used")

	// ErrBusy means that Ironic is working on the node, so that it has to be asked again.
	ErrBusy = errors.New("the node is locked by Ironic")
)

// Refusal is a request that Ironic understood and does not fulfil.
type Refusal struct {
	// Message is what Ironic says.
	Message string
}

// Error implements error.
func (r *Refusal) Error() string { return "Ironic refuses: " + r.Message }

// conductorTrust is how long a conductor that was there is believed to be there still.
const conductorTrust = 5 * time.Second

// Client talks to one Ironic. It may be used by several goroutines.
type Client struct {
	service *gophercloud.ServiceClient

	lock sync.Mutex
	// checked is when there was a conductor.
	checked time.Time
}

// Observe reads what Ironic knows of a host.
func (c *Client) Observe(ctx context.Context, query step.Query) (step.Ironic, error) {
	if err := c.checkConductor(ctx); err != nil {
		return step.Ironic{}, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	seen, err := c.observe(ctx, query)
	return seen, asUnreachable(err)
}

func (c *Client) observe(ctx context.Context, query step.Query) (step.Ironic, error) {
	node, err := c.findNode(ctx, query)
	if err != nil {
		return step.Ironic{}, fmt.Errorf("finding the node %s: %w", query.Name, err)
	}
	seen := step.Ironic{Node: node}
	if node != nil && step.IsBusy(node) {
		return seen, nil
	}
	if query.Busy {
		if seen.Busy, err = c.countBusy(ctx, query.Name); err != nil {
			return step.Ironic{}, fmt.Errorf("counting the nodes that Ironic works on: %w", err)
		}
	}
	if node == nil {
		if seen.Stranger, err = c.findStranger(ctx, query.MACAddress); err != nil {
			return step.Ironic{}, fmt.Errorf("finding who has the MAC address %s: %w", query.MACAddress, err)
		}
		return seen, nil
	}
	if seen.Ports, err = c.portsOf(ctx, node.UUID); err != nil {
		return step.Ironic{}, fmt.Errorf("listing the ports of the node %s: %w", query.Name, err)
	}
	if query.Inventory && node.ProvisionState == string(nodes.Manageable) {
		if seen.Inventory, err = c.inventory(ctx, node.UUID); err != nil {
			return step.Ironic{}, fmt.Errorf("reading the inventory of the node %s: %w", query.Name, err)
		}
	}
	return seen, nil
}

// inventory is what the last inspection found. Nil without an error means that there was none.
func (c *Client) inventory(ctx context.Context, node string) (*bmov1alpha1.HardwareDetails, error) {
	found, err := nodes.GetInventory(ctx, c.service, node).Extract()
	if gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return hardware(found), nil
}

func (c *Client) checkConductor(ctx context.Context) error {
	c.lock.Lock()
	defer c.lock.Unlock()
	if time.Since(c.checked) < conductorTrust {
		return nil
	}
	page, err := drivers.ListDrivers(c.service, drivers.ListDriversOpts{}).AllPages(ctx)
	if err != nil {
		return err
	}
	found, err := drivers.ExtractDrivers(page)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return errors.New("it has no conductor")
	}
	c.checked = time.Now()
	return nil
}

// asUnreachable turns an error that is no answer of Ironic into ErrUnreachable: it went away after it was found.
func asUnreachable(err error) error {
	var answer gophercloud.ErrUnexpectedResponseCode
	if err == nil || errors.As(err, &answer) && answer.Actual < http.StatusBadGateway {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, err)
}

// findNode looks for the node by its ID and then by its name. Nil without an error means that there is none.
func (c *Client) findNode(ctx context.Context, query step.Query) (*nodes.Node, error) {
	for _, key := range []string{query.ID, query.Name} {
		if key == "" {
			continue
		}
		node, err := nodes.Get(ctx, c.service, key).Extract()
		if gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
			continue
		}
		return node, err
	}
	return nil, nil
}

func (c *Client) findStranger(ctx context.Context, address string) (string, error) {
	if address == "" {
		return "", nil
	}
	found, err := c.listPorts(ctx, ports.ListOpts{Address: address, Fields: []string{"node_uuid"}})
	if err != nil || len(found) == 0 {
		return "", err
	}
	node, err := nodes.Get(ctx, c.service, found[0].NodeUUID).Extract()
	if err != nil {
		return "", err
	}
	return cmp.Or(node.Name, node.UUID), nil
}

func (c *Client) portsOf(ctx context.Context, node string) ([]string, error) {
	found, err := c.listPorts(ctx, ports.ListOpts{NodeUUID: node, Fields: []string{"address"}})
	if err != nil {
		return nil, err
	}
	addresses := make([]string, len(found))
	for i, port := range found {
		addresses[i] = strings.ToLower(port.Address)
	}
	slices.Sort(addresses)
	return addresses, nil
}

func (c *Client) listPorts(ctx context.Context, options ports.ListOpts) ([]ports.Port, error) {
	page, err := ports.List(c.service, options).AllPages(ctx)
	if err != nil {
		return nil, err
	}
	return ports.ExtractPorts(page)
}

// countBusy counts the nodes that Ironic is working on, without the one of a name.
func (c *Client) countBusy(ctx context.Context, except string) (int, error) {
	page, err := nodes.List(c.service, nodes.ListOpts{Fields: []string{"name", "provision_state"}}).AllPages(ctx)
	if err != nil {
		return 0, err
	}
	all, err := nodes.ExtractNodes(page)
	if err != nil {
		return 0, err
	}
	busy := 0
	for _, node := range all {
		if node.Name != except && step.IsBusy(&node) {
			busy++
		}
	}
	return busy, nil
}
