package fakeironic

import (
	"fmt"
	"net/http"

	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
)

// provision changes the provision state of a node: short operations end at once, the others take the time Work.
func (s *Server) provision(node *record, r *http.Request) (int, any) {
	var body map[string]any
	if err := read(r, &body); err != nil {
		return http.StatusBadRequest, fault("the request cannot be read")
	}
	// Any other target is refused below.
	target, _ := body["target"].(string)
	work := s.workFor(node, nodes.TargetProvisionState(target))
	switch {
	case work == nil:
		return http.StatusBadRequest, fault("The requested action %q can not be performed on node %q while it is in "+
			"state %q.", target, node.UUID, node.ProvisionState)
	case node.Maintenance:
		return http.StatusBadRequest, fault("The %s operation can't be performed on node %s because it's in maintenance "+
			"mode.", target, node.UUID)
	}
	if target == string(nodes.TargetActive) && lacksImage(node) {
		return http.StatusBadRequest, fault("Failed to validate deploy or power info for node %s: instance_info lacks "+
			"image_source", node.UUID)
	}
	node.LastError = ""
	s.record(node, target)
	work()
	return http.StatusAccepted, nil
}

// lacksImage returns true if the deployment of the node requires an image that it lacks.
func lacksImage(node *record) bool {
	return node.InstanceInfo["image_source"] == nil && node.DeployInterface != "custom-agent"
}

// workFor returns the operation of a verb for a node in its state. Nil means that it is not possible.
func (s *Server) workFor(node *record, target nodes.TargetProvisionState) func() {
	type situation struct {
		state nodes.ProvisionState
		verb  nodes.TargetProvisionState
	}
	return map[situation]func(){
		{nodes.Enroll, nodes.TargetManage}:      func() { s.work(node, nodes.Verifying, s.verify) },
		{nodes.Available, nodes.TargetManage}:   func() { node.ProvisionState = string(nodes.Manageable) },
		{nodes.Manageable, nodes.TargetInspect}: func() { s.work(node, nodes.Inspecting, inspect) },
		{nodes.Manageable, nodes.TargetProvide}: func() { s.work(node, nodes.Cleaning, s.clean) },
		{nodes.Manageable, nodes.TargetAdopt}:   func() { s.work(node, nodes.Adopting, adopt) },
		{nodes.Available, nodes.TargetActive}:   func() { s.work(node, nodes.Deploying, s.deploy) },
		{nodes.Active, nodes.TargetDeleted}:     func() { s.work(node, nodes.Deleting, s.tearDown) },
	}[situation{nodes.ProvisionState(node.ProvisionState), target}]
}

// work sets a transient state until the operation is complete.
func (s *Server) work(node *record, state nodes.ProvisionState, done func(*record)) {
	node.ProvisionState = string(state)
	// A change of power waits for the operation.
	node.TargetProvisionState = string(nodes.Active)
	s.start(node, func(node *record) {
		node.TargetProvisionState = ""
		done(node)
	})
}

func (s *Server) verify(node *record) {
	if node.DriverInfo[passwordKey] != s.BoardPassword {
		node.ProvisionState = string(nodes.Enroll)
		node.LastError = "Failed to get power state for node: the password is wrong (401)"
		return
	}
	node.ProvisionState = string(nodes.Manageable)
	if s.machines[address(node)] == "" {
		s.machines[address(node)] = nodes.PowerOff
	}
	node.PowerState = string(s.machines[address(node)])
}

// turn changes the power of the machine behind a node.
func (s *Server) turn(node *record, power nodes.TargetPowerState) {
	s.machines[address(node)] = power
	node.PowerState = string(power)
}

// address is the URL of the machine at its management controller.
func address(node *record) string {
	return fmt.Sprint(node.DriverInfo[addressKey], node.DriverInfo[systemKey])
}

func inspect(node *record) {
	node.ProvisionState, node.inventory = string(nodes.Manageable), true
}

func (s *Server) clean(node *record) {
	node.ProvisionState = string(nodes.Available)
	s.turn(node, nodes.PowerOff)
}

func adopt(node *record) { node.ProvisionState = string(nodes.Active) }

func (s *Server) deploy(node *record) {
	node.ProvisionState = string(nodes.Active)
	s.turn(node, nodes.PowerOn)
}

func (s *Server) tearDown(node *record) {
	node.InstanceUUID, node.InstanceInfo = "", nil
	s.turn(node, nodes.PowerOff)
	if node.AutomatedClean != nil && !*node.AutomatedClean {
		node.ProvisionState = string(nodes.Available)
		return
	}
	s.work(node, nodes.Cleaning, s.clean)
}

func (s *Server) power(node *record, r *http.Request) (int, any) {
	var body map[string]any
	if err := read(r, &body); err != nil {
		return http.StatusBadRequest, fault("the request cannot be read")
	}
	// Any other target is refused below.
	target, _ := body["target"].(string)
	after := map[nodes.TargetPowerState]nodes.TargetPowerState{
		nodes.PowerOn: nodes.PowerOn, nodes.PowerOff: nodes.PowerOff, nodes.SoftPowerOff: nodes.PowerOff,
		nodes.Rebooting: nodes.PowerOn, nodes.SoftRebooting: nodes.PowerOn,
	}[nodes.TargetPowerState(target)]
	if after == "" {
		return http.StatusBadRequest, fault("The target state %q is not valid.", target)
	}
	node.LastError = ""
	node.TargetPowerState = string(after)
	s.record(node, target)
	s.start(node, func(node *record) {
		node.TargetPowerState = ""
		s.turn(node, after)
	})
	return http.StatusAccepted, nil
}

func (s *Server) maintenance(node *record, r *http.Request) (int, any) {
	node.Maintenance = r.Method == http.MethodPut
	what := "no maintenance"
	if node.Maintenance {
		what = "maintenance"
	}
	s.record(node, what)
	return http.StatusAccepted, nil
}
