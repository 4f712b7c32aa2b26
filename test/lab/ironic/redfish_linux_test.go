package ironic

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/inventory"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/ports"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/bmc"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/computer"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/network"
)

const userData = "#cloud-config\nhostname: m0\n"

// configDrive is a config drive in the form of BMO.
var configDrive = map[string]any{
	"meta_data":    map[string]any{"name": "m0", "local-hostname": "m0"},
	"network_data": map[string]any{"links": []any{map[string]any{"id": "eth0", "type": "phy"}}},
	"user_data":    userData,
}

// computed is a computer with its node in Ironic.
type computed struct {
	*computer.Computer
	name, mac string
}

// TestRedfish runs lives of machines with Ironic's own redfish driver, the BMCs of the lab, and its agent. One Ironic
// serves them in parallel.
func TestRedfish(t *testing.T) {
	state := t.TempDir()
	images := httptest.NewServer(http.FileServer(http.Dir(filepath.Join(state, ImagesDir))))
	t.Cleanup(images.Close)
	options := Options{State: state, Config: Config{
		ImagesURL: images.URL, PowerSyncSeconds: 3600, CallbackSeconds: callbackSeconds,
	}}
	process := start(t, options)
	wires := computer.NewNetwork()
	server, err := bmc.Start(t.Context(), wires)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	if err := server.AddImage("good", "0123456789abcdef"); err != nil {
		t.Fatal(err)
	}
	lab := redfishLab{test: t, client: newClient(t, process), server: server, wires: wires, state: state}
	var deployed *computed
	t.Run("stories", func(t *testing.T) {
		stories := map[string]func(*testing.T){
			"errors of images":  lab.testImages,
			"wrong credentials": lab.testCredentials,
			"no cleaning":       lab.testUncleaned,
			"power":             lab.testPower,
			"silent agent":      lab.testSilence,
			"inspection":        lab.testInspection,
			"life":              lab.testLife,
			"deployed": func(t *testing.T) {
				t.Helper()
				_, deployed = lab.deploy(t, 40)
			},
		}
		maps.Copy(stories, lab.failures())
		for name, story := range stories {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				story(t)
			})
		}
	})
	if deployed == nil || t.Failed() {
		return
	}
	lab.testAdoption(t, process, deployed)
}

type redfishLab struct {
	// test outlives single stories.
	test   *testing.T
	client *gophercloud.ServiceClient
	server *bmc.Server
	wires  *computer.Network
	state  string
}

const bmcPassword = "secret"

// add adds a computer with its BMC.
func (l redfishLab) add(t *testing.T, number byte) *computed {
	t.Helper()
	made := &computed{name: fmt.Sprintf("m%d", number), mac: network.HardwareAddress(number).String()}
	made.Computer = computer.New(computer.Options{
		MAC: made.mac, Address: netip.AddrFrom4([4]byte{127, 0, 1, number}), Network: l.wires,
		Log:    slog.New(slog.NewTextHandler(l.test.Output(), nil)).With("agent", number),
		Failed: func(err error) { l.test.Errorf("the agent of %s ended: %v", made.name, err) },
	})
	l.test.Cleanup(func() { _ = made.PowerOff(context.Background()) })
	if err := l.server.Add(made.name, "operator", bmcPassword, made); err != nil {
		t.Fatal(err)
	}
	return made
}

// enroll creates the node of a computer, as BMO does.
func (l redfishLab) enroll(t *testing.T, of *computed, password string) *machine {
	t.Helper()
	server, system := bmc.RedfishAddress(of.name)
	node, err := nodes.Create(t.Context(), l.client, RedfishNode("metal3~"+of.name, BMC{
		Address: l.wires.Actual(server), System: system, Username: "operator", Password: password,
	})).Extract()
	if err != nil {
		t.Fatal(err)
	}
	_, err = ports.Create(t.Context(), l.client, ports.CreateOpts{
		NodeUUID: node.UUID, Address: of.mac,
	}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	return &machine{client: l.client, id: node.UUID}
}

// available returns a machine that is manageable and was cleaned.
func (l redfishLab) available(t *testing.T, number byte) (*machine, *computed) {
	t.Helper()
	machine := l.add(t, number)
	m := l.enroll(t, machine, bmcPassword)
	m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetManage}, nodes.Manageable)
	machine.expect(t, "")
	m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetProvide}, nodes.Available)
	machine.expect(t, "boot ramdisk, erase, off")
	return m, machine
}

// useImage sets the image as BMO does.
func (l redfishLab) useImage(t *testing.T, m *machine, name, checksum string) {
	t.Helper()
	m.set(t, "/instance_info", map[string]any{
		"image_source": l.wires.Actual(bmc.ImageURL(name)), "image_os_hash_algo": "sha256", "image_os_hash_value": checksum,
	})
}

func (l redfishLab) deploy(t *testing.T, number byte) (*machine, *computed) {
	t.Helper()
	m, machine := l.available(t, number)
	l.useImage(t, m, "good", l.wires.Actual(bmc.ChecksumURL("good")))
	m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetActive, ConfigDrive: configDrive}, nodes.Active)
	machine.expect(t, "boot ramdisk, write image, off, boot disk")
	return m, machine
}

func (c *computed) expect(t *testing.T, want string) {
	t.Helper()
	if got := c.Happened(); got != want {
		t.Fatalf("the machine did %q, want %q", got, want)
	}
}

// testInspection inspects a machine again after it got a second card. Ironic waits in inspect wait for an agent that
// sends nothing, until the operator ends the inspection.
func (l redfishLab) testInspection(t *testing.T) {
	t.Helper()
	machine := l.add(t, 30)
	m := l.enroll(t, machine, bmcPassword)
	m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetManage}, nodes.Manageable)
	inspect := nodes.ProvisionStateOpts{Target: nodes.TargetInspect}
	machine.SetMute(true)
	m.begin(t, inspect)
	m.wait(t, func(node *nodes.Node) bool { return node.ProvisionState == string(nodes.InspectWait) })
	m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetAbort}, nodes.InspectFail)
	machine.SetMute(false)
	m.change(t, inspect, nodes.Manageable)
	first := m.inventory(t)
	if got := len(first.Interfaces); got != 1 || first.CPU.Count != 4 {
		t.Errorf("the first inspection found %d cards and %d processors", got, first.CPU.Count)
	}
	const added = "02:00:00:00:00:99"
	machine.AddCard(added)
	m.change(t, inspect, nodes.Manageable)
	second := m.inventory(t)
	if got := len(second.Interfaces); got != 2 || second.Interfaces[1].MACAddress != added {
		t.Errorf("the second inspection found %+v", second.Interfaces)
	}
}

// inventory returns the result of the last inspection.
func (m *machine) inventory(t *testing.T) inventory.InventoryType {
	t.Helper()
	data, err := nodes.GetInventory(t.Context(), m.client, m.id).Extract()
	if err != nil {
		t.Fatal(err)
	}
	return data.Inventory
}

func (l redfishLab) testLife(t *testing.T) {
	t.Helper()
	m, machine := l.deploy(t, 31)
	image, drive := machine.Disk()
	if image != `{"rootfs":"0123456789abcdef"}`+"\n" {
		t.Errorf("the disk holds %q", image)
	}
	if got := string(drive["openstack/latest/user_data"]); got != userData {
		t.Errorf("user_data is %q", got)
	}
	var metaData map[string]string
	err := json.Unmarshal(drive["openstack/latest/meta_data.json"], &metaData)
	if err != nil || metaData["name"] != "m0" {
		t.Errorf("meta_data.json is %v, %v", metaData, err)
	}
	m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetDeleted}, nodes.Available)
	machine.expect(t, "off, boot ramdisk, erase, off")
	if image, _ := machine.Disk(); image != "" {
		t.Errorf("after the cleaning the disk holds %q", image)
	}
}

// testImages deploys an image with another content, which the agent detects, and a missing one, which Ironic detects
// before the machine boots. After a failure the ramdisk stays on.
func (l redfishLab) testImages(t *testing.T) {
	t.Helper()
	m, machine := l.available(t, 32)
	wrong := strings.Repeat("0", 64)
	l.useImage(t, m, "good", wrong)
	node := m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetActive}, nodes.DeployFail)
	if !strings.Contains(node.LastError, "should have the checksum "+wrong) {
		t.Errorf("last_error does not name the checksum: %s", node.LastError)
	}
	if log := agentLog(t, l.state, m.id); !strings.Contains(log, "execute_deploy_step") || !strings.Contains(log, wrong) {
		t.Errorf("the log of the agent does not explain it: %s", log)
	}
	machine.expect(t, "boot ramdisk")
	l.useImage(t, m, "gone", wrong)
	node = m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetActive}, nodes.DeployFail)
	if !strings.Contains(node.LastError, "gone.img") || !strings.Contains(node.LastError, "404") {
		t.Errorf("last_error does not name the image: %s", node.LastError)
	}
	machine.expect(t, "off")
}

func (l redfishLab) testCredentials(t *testing.T) {
	t.Helper()
	m := l.enroll(t, l.add(t, 33), "another")
	node := m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetManage}, nodes.Enroll)
	if !strings.Contains(node.LastError, "wrong user name or password") && !strings.Contains(node.LastError, "401") {
		t.Errorf("last_error does not name the credentials: %s", node.LastError)
	}
	m.set(t, "/driver_info/redfish_password", bmcPassword)
	m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetManage}, nodes.Manageable)
}

// testUncleaned makes a node available without cleaning: no ramdisk boots.
func (l redfishLab) testUncleaned(t *testing.T) {
	t.Helper()
	machine := l.add(t, 36)
	m := l.enroll(t, machine, bmcPassword)
	m.set(t, "/automated_clean", false)
	m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetManage}, nodes.Manageable)
	m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetProvide}, nodes.Available)
	machine.expect(t, "")
}

func (l redfishLab) testPower(t *testing.T) {
	t.Helper()
	m, machine := l.deploy(t, 34)
	if err := l.server.SetFault(machine.name, bmc.Fault{FailPower: "power supply broken"}); err != nil {
		t.Fatal(err)
	}
	if node := m.switchPower(t, nodes.PowerOff); node.PowerState != "power on" || !strings.Contains(node.LastError, "power supply broken") {
		t.Errorf("with a broken power supply: %s, %s", node.PowerState, node.LastError)
	}
	if err := l.server.SetFault(machine.name, bmc.Fault{}); err != nil {
		t.Fatal(err)
	}
	if node := m.switchPower(t, nodes.SoftPowerOff); node.PowerState != "power off" {
		t.Errorf("after a soft power off: %s, %s", node.PowerState, node.LastError)
	}
	// The machine boots from its disk from now on.
	if node := m.switchPower(t, nodes.PowerOn); node.PowerState != "power on" {
		t.Errorf("after power on: %s, %s", node.PowerState, node.LastError)
	}
	machine.expect(t, "off, boot disk")
}

// testSilence boots a ramdisk whose agent sends nothing.
func (l redfishLab) testSilence(t *testing.T) {
	t.Helper()
	m, machine := l.available(t, 35)
	machine.SetMute(true)
	l.useImage(t, m, "good", l.wires.Actual(bmc.ChecksumURL("good")))
	m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetActive}, nodes.DeployFail)
	// The state is set before last_error.
	node := m.wait(t, func(node *nodes.Node) bool { return node.LastError != "" })
	if !strings.Contains(node.LastError, "Timeout reached while waiting for callback") {
		t.Errorf("last_error does not name the silence: %s", node.LastError)
	}
	machine.expect(t, "boot ramdisk")
}
