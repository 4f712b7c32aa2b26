package ironic

import (
	"archive/tar"
	"compress/gzip"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/bmc"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/computer"
)

// callbackSeconds is the time without heartbeats after which Ironic fails an agent.
const callbackSeconds = 15

// failures has the stories of agents that fail in a step, and of BMCs with faults.
func (l redfishLab) failures() map[string]func(*testing.T) {
	return map[string]func(*testing.T){
		"agent dies while it cleans":            l.testFailedClean(50, computer.Dies),
		"agent is disconnected while it cleans": l.testFailedClean(51, computer.Silent),
		"agent dies while it writes":            l.testFailedWrite(52, computer.Dies),
		"agent is disconnected while it writes": l.testFailedWrite(53, computer.Silent),
		"agent hangs while it writes":           l.testHang,
		"power is stuck":                        l.testStuckPower,
		"wrong certificate":                     l.testCertificate,
		"password of the BMC is rotated":        l.testRotation,
		"BMC is busy and slow at its start":     l.testBusyBMC,
		"drive has the medium of another user":  l.testMedium,
	}
}

// testFailedClean loses the agent while it erases. The operator, such as BMO, must end the failure of the node, which
// is then cleaned from the start.
func (l redfishLab) testFailedClean(number byte, failure computer.Failure) func(*testing.T) {
	return func(t *testing.T) {
		t.Helper()
		machine := l.add(t, number)
		m := l.enroll(t, machine, bmcPassword)
		m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetManage}, nodes.Manageable)
		machine.Break(computer.StepErase, failure)
		m.begin(t, nodes.ProvisionStateOpts{Target: nodes.TargetProvide})
		m.wait(t, func(node *nodes.Node) bool { return node.ProvisionState == string(nodes.CleanWait) })
		m.wait(t, func(node *nodes.Node) bool { return node.ProvisionState == string(nodes.CleanFail) })
		// The state is set before last_error.
		node := m.wait(t, func(node *nodes.Node) bool { return node.LastError != "" })
		expectLost(t, node, failure)
		if !node.Maintenance || node.Fault != "clean failure" {
			t.Errorf("maintenance is %v, fault is %q", node.Maintenance, node.Fault)
		}
		machine.expect(t, "boot ramdisk")

		machine.Break(computer.StepErase, "")
		if err := nodes.UnsetMaintenance(t.Context(), m.client, m.id).ExtractErr(); err != nil {
			t.Fatal(err)
		}
		m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetManage}, nodes.Manageable)
		m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetProvide}, nodes.Available)
		machine.expect(t, "off, boot ramdisk, erase, off")
	}
}

// expectLost requires that Ironic reports the loss of an agent. It detects a dead agent at once while it connects to it,
// or reads its response.
func expectLost(t *testing.T, node *nodes.Node, failure computer.Failure) {
	t.Helper()
	reports := []string{"Timeout reached while"}
	if failure == computer.Dies {
		reports = append(reports, "Connection to agent failed", "Error invoking agent command")
	}
	if !slices.ContainsFunc(reports, func(report string) bool { return strings.Contains(node.LastError, report) }) {
		t.Errorf("last_error does not name the agent that %s: %s", failure, node.LastError)
	}
}

// testFailedWrite loses the agent while it writes the image. No machine boots from a partly written disk.
func (l redfishLab) testFailedWrite(number byte, failure computer.Failure) func(*testing.T) {
	return func(t *testing.T) {
		t.Helper()
		m, machine := l.available(t, number)
		machine.Break(computer.StepWrite, failure)
		l.useImage(t, m, "good", l.wires.Actual(bmc.ChecksumURL("good")))
		m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetActive}, nodes.DeployFail)
		node := m.wait(t, func(node *nodes.Node) bool { return node.LastError != "" })
		expectLost(t, node, failure)
		if image, _ := machine.Disk(); image != "" {
			t.Errorf("the disk holds %q", image)
		}
		if happened := machine.Happened(); strings.Contains(happened, "boot disk") {
			t.Errorf("the machine did %q", happened)
		}
		machine.Break(computer.StepWrite, "")
		m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetActive}, nodes.Active)
		if happened := machine.Happened(); !strings.HasSuffix(happened, "boot ramdisk, write image, off, boot disk") {
			t.Errorf("the machine did %q", happened)
		}
	}
}

// testHang has an agent whose step never ends. Ironic waits as long as it gets heartbeats, until a power failure.
func (l redfishLab) testHang(t *testing.T) {
	t.Helper()
	m, machine := l.available(t, 54)
	machine.Break(computer.StepWrite, computer.Hangs)
	l.useImage(t, m, "good", l.wires.Actual(bmc.ChecksumURL("good")))
	began := time.Now()
	m.begin(t, nodes.ProvisionStateOpts{Target: nodes.TargetActive})
	late := began.Add(2 * callbackSeconds * time.Second)
	m.wait(t, func(node *nodes.Node) bool {
		if strings.HasSuffix(node.ProvisionState, "failed") {
			t.Fatalf("node is %s: %s", node.ProvisionState, node.LastError)
		}
		return node.ProvisionState == string(nodes.DeployWait) && node.ProvisionUpdatedAt.After(late)
	})
	if err := machine.PowerOff(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.wait(t, func(node *nodes.Node) bool { return node.ProvisionState == string(nodes.DeployFail) })
}

// testStuckPower has a BMC that accepts a command without executing it.
func (l redfishLab) testStuckPower(t *testing.T) {
	t.Helper()
	m, machine := l.deploy(t, 55)
	l.fault(t, machine, bmc.Fault{IgnorePower: true})
	err := nodes.ChangePowerState(t.Context(), m.client, m.id, nodes.PowerStateOpts{
		Target: nodes.SoftPowerOff, Timeout: 5,
	}).ExtractErr()
	if err != nil {
		t.Fatal(err)
	}
	node := m.wait(t, func(node *nodes.Node) bool { return node.TargetPowerState == "" })
	if node.PowerState != "power on" || !strings.Contains(node.LastError, "Failed to set node power state to power off") {
		t.Errorf("with stuck power: %s, %s", node.PowerState, node.LastError)
	}
	l.fault(t, machine, bmc.Fault{})
	if node := m.switchPower(t, nodes.PowerOff); node.PowerState != "power off" {
		t.Errorf("after a repair: %s, %s", node.PowerState, node.LastError)
	}
}

// testCertificate has a BMC with a certificate of an authority that Ironic does not trust.
func (l redfishLab) testCertificate(t *testing.T) {
	t.Helper()
	machine := l.add(t, 56)
	m := l.enroll(t, machine, bmcPassword)
	server, _ := bmc.RedfishTLSAddress(machine.name)
	m.set(t, "/driver_info/redfish_address", l.wires.Actual(server))
	node := m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetManage}, nodes.Enroll)
	if !strings.Contains(node.LastError, "certificate verify failed") {
		t.Errorf("last_error does not name the certificate: %s", node.LastError)
	}
	m.set(t, "/driver_info/redfish_verify_ca", false)
	m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetManage}, nodes.Manageable)
}

// testRotation changes the password of a BMC while Ironic has a session.
func (l redfishLab) testRotation(t *testing.T) {
	t.Helper()
	m, machine := l.deploy(t, 57)
	if err := l.server.SetCredentials(machine.name, "operator", "rotated"); err != nil {
		t.Fatal(err)
	}
	rotated := time.Now()
	if node := m.switchPower(t, nodes.PowerOff); !strings.Contains(node.LastError, "401") {
		t.Errorf("with the previous password: %s, %s", node.PowerState, node.LastError)
	}
	if !machine.Powered() {
		t.Error("the machine was turned off")
	}
	m.set(t, "/driver_info/redfish_password", "rotated")
	if node := m.switchPower(t, nodes.PowerOff); node.PowerState != "power off" || node.LastError != "" {
		t.Errorf("with the new password: %s, %s", node.PowerState, node.LastError)
	}
	sessions := 0
	for _, operation := range l.server.OperationsSince(rotated) {
		if operation.Resource == "sessions" && operation.Problem == "" {
			sessions++
		}
	}
	if sessions == 0 {
		t.Error("Ironic has opened no session with the new password")
	}
}

// testBusyBMC has a BMC that answers 503 and is slow afterwards, as after a restart.
func (l redfishLab) testBusyBMC(t *testing.T) {
	t.Helper()
	machine := l.add(t, 58)
	m := l.enroll(t, machine, bmcPassword)
	l.fault(t, machine, bmc.Fault{Busy: true})
	node := m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetManage}, nodes.Enroll)
	if !strings.Contains(node.LastError, "503") && !strings.Contains(node.LastError, "busy") {
		t.Errorf("last_error does not name the answer: %s", node.LastError)
	}
	l.fault(t, machine, bmc.Fault{Delay: time.Second})
	m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetManage}, nodes.Manageable)
	machine.expect(t, "")
}

// testMedium has a drive with the medium of another user. Ironic ejects it. If the BMC does not eject it, the
// deployment fails and the machine does not boot.
func (l redfishLab) testMedium(t *testing.T) {
	t.Helper()
	m, machine := l.available(t, 59)
	l.insertMedium(t, machine)
	l.fault(t, machine, bmc.Fault{IgnoreEject: true})
	l.useImage(t, m, "good", l.wires.Actual(bmc.ChecksumURL("good")))
	m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetActive}, nodes.DeployFail)
	// The state is set before last_error.
	node := m.wait(t, func(node *nodes.Node) bool { return node.LastError != "" })
	if !strings.Contains(node.LastError, "No suitable virtual media device found") {
		t.Errorf("last_error does not name the drive: %s", node.LastError)
	}
	if happened := machine.Happened(); strings.Contains(happened, "boot") {
		t.Errorf("the machine did %q", happened)
	}
	l.fault(t, machine, bmc.Fault{})
	m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetActive}, nodes.Active)
	if happened := machine.Happened(); !strings.HasSuffix(happened, "boot ramdisk, write image, off, boot disk") {
		t.Errorf("the machine did %q", happened)
	}
}

// insertMedium inserts a medium, as a user does by the web page of the BMC.
func (l redfishLab) insertMedium(t *testing.T, machine *computed) {
	t.Helper()
	server, _ := bmc.RedfishAddress(machine.name)
	target := l.wires.Actual(server) + "/redfish/v1/Managers/" + machine.name + "/VirtualMedia/Cd/Actions/VirtualMedia.InsertMedia"
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, target,
		strings.NewReader(`{"Image": "http://another.example/installer.iso"}`))
	if err != nil {
		t.Fatal(err)
	}
	request.SetBasicAuth("operator", bmcPassword)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusNoContent {
		t.Fatalf("inserting a medium: %s, %v", response.Status, err)
	}
}

func (l redfishLab) fault(t *testing.T, machine *computed, fault bmc.Fault) {
	t.Helper()
	if err := l.server.SetFault(machine.name, fault); err != nil {
		t.Fatal(err)
	}
}

// agentLog returns the log of an agent that Ironic has stored for a node.
func agentLog(t *testing.T, state, node string) string {
	t.Helper()
	stored, err := filepath.Glob(filepath.Join(state, "deploy-logs", node+"*.tar.gz"))
	if err != nil || len(stored) == 0 {
		t.Fatalf("Ironic has stored no log of node %s: %v", node, err)
	}
	file, err := os.Open(stored[len(stored)-1])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	compressed, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewReader(compressed)
	if _, err := archive.Next(); err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(archive)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// testAdoption replaces Ironic by one with an empty database, while the BMC of the machine fails. The adoption is
// repeated after each failure, as BMO does, and no attempt changes the machine.
func (l redfishLab) testAdoption(t *testing.T, first *Process, deployed *computed) {
	t.Helper()
	if err := first.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.client = newClient(t, start(t, Options{Config: first.Config, Credentials: first.Credentials}))
	began := time.Now()
	l.fault(t, deployed, bmc.Fault{Busy: true})
	m := l.enroll(t, deployed, bmcPassword)
	m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetManage}, nodes.Enroll)
	l.fault(t, deployed, bmc.Fault{Delay: time.Second})
	m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetManage}, nodes.Manageable)
	l.useImage(t, m, "good", l.wires.Actual(bmc.ChecksumURL("good")))
	l.fault(t, deployed, bmc.Fault{Busy: true})
	node := m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetAdopt}, nodes.AdoptFail)
	// Ironic drops the power state, and reads it again in the next comparison.
	if node.Maintenance || node.PowerState != "" {
		t.Errorf("after an adoption that failed: maintenance %v, %s", node.Maintenance, node.PowerState)
	}
	l.fault(t, deployed, bmc.Fault{Delay: time.Second})
	node = m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetAdopt}, nodes.Active)
	if node.LastError != "" || !deployed.Powered() {
		t.Errorf("after the adoption: powered %v, %s", deployed.Powered(), node.LastError)
	}
	for _, operation := range l.server.OperationsSince(began) {
		if operation.Changes() {
			t.Errorf("the adoption requested %+v", operation)
		}
	}
}
