package ironicapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/ports"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/hostoperator/step"
)

// Do makes one call. The node is the ID of the node; Enroll needs none. The error is ErrBusy where the call has to be
// made again, and a Refusal where Ironic does not want to.
func (c *Client) Do(ctx context.Context, node string, call step.Call) error {
	err := c.do(ctx, node, call)
	var answer gophercloud.ErrUnexpectedResponseCode
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &answer):
		return asUnreachable(err)
	case answer.Actual == http.StatusConflict && !isDuplicate(call, answer.Body):
		return fmt.Errorf("%w: %s", ErrBusy, message(answer.Body))
	case answer.Actual == http.StatusBadRequest, answer.Actual == http.StatusConflict:
		return &Refusal{Message: message(answer.Body)}
	default:
		return asUnreachable(err)
	}
}

func (c *Client) do(ctx context.Context, node string, call step.Call) error {
	switch call := call.(type) {
	case step.Enroll:
		return nodes.Create(ctx, c.service, call.Node).Err
	case step.AddPort:
		return ports.Create(ctx, c.service, ports.CreateOpts{
			NodeUUID: node, Address: call.MACAddress, PXEEnabled: &call.PXE,
		}).Err
	case step.Update:
		return nodes.Update(ctx, c.service, node, call.Changes).Err
	case step.Provision:
		return nodes.ChangeProvisionState(ctx, c.service, node, nodes.ProvisionStateOpts{Target: call.Target}).Err
	case step.Deploy:
		return nodes.ChangeProvisionState(ctx, c.service, node, nodes.ProvisionStateOpts{
			Target: nodes.TargetActive, ConfigDrive: call.ConfigDrive, DeploySteps: call.Steps,
		}).Err
	case step.Power:
		return nodes.ChangePowerState(ctx, c.service, node, call.Options).Err
	case step.Maintenance:
		if call.On {
			return nodes.SetMaintenance(ctx, c.service, node, nodes.MaintenanceOpts{Reason: call.Reason}).Err
		}
		return nodes.UnsetMaintenance(ctx, c.service, node).Err
	case step.Remove:
		err := nodes.Delete(ctx, c.service, node).Err
		if gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
			return nil
		}
		return err
	default:
		return fmt.Errorf("nobody knows the call %T", call)
	}
}

// isDuplicate tells a MAC address that somebody else has from a node that is locked: Ironic says conflict for both.
func isDuplicate(call step.Call, body []byte) bool {
	_, isPort := call.(step.AddPort)
	return isPort && strings.Contains(message(body), "already exists")
}

// message finds what Ironic says to people in the body of an answer. It wraps that twice, the inner time as a string.
func message(body []byte) string {
	var outer struct {
		Error json.RawMessage `json:"error_message"`
	}
	if json.Unmarshal(body, &outer) != nil || outer.Error == nil {
		return strings.TrimSpace(string(body))
	}
	inner := []byte(outer.Error)
	var text string
	if json.Unmarshal(inner, &text) == nil {
		inner = []byte(text)
	}
	var fault struct {
		Text string `json:"faultstring"`
	}
	if json.Unmarshal(inner, &fault) != nil || fault.Text == "" {
		return strings.TrimSpace(string(inner))
	}
	return fault.Text
}
