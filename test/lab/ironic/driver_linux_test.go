package ironic

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/ports"
	"github.com/kdomanski/iso9660"
)

const userData = "#cloud-config\nhostname: m0\n"

// configDrive is a config drive as an operator hands it over.
var configDrive = map[string]any{
	"meta_data":    map[string]any{"name": "m0", "local-hostname": "m0"},
	"network_data": map[string]any{"links": []any{map[string]any{"id": "eth0", "type": "phy"}}},
	"user_data":    userData,
}

// TestMachines tells the stories of single machines, which one Ironic can serve side by side.
func TestMachines(t *testing.T) {
	client := newClient(t, start(t, Options{Config: Config{DeploySeconds: 1}}))
	for name, story := range map[string]func(*testing.T, *gophercloud.ServiceClient){
		"life":               testLife,
		"wrong credentials":  testWrongCredentials,
		"incomplete":         testIncompleteDriverInfo,
		"failing deployment": testFailingDeployment,
		"checksums":          testChecksums,
		"no cleaning":        testNoCleaning,
		"power":              testPower,
		"no power off":       testDisablePowerOff,
	} {
		t.Run(name, func(t *testing.T) { story(t, client) })
	}
}

// available brings a new node to the state in which it can be deployed.
func available(t *testing.T, client *gophercloud.ServiceClient) *machine {
	t.Helper()
	m := enroll(t, client, newBMC(t))
	m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetManage}, nodes.Manageable)
	m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetProvide}, nodes.Available)
	m.bmc.sent()
	return m
}

func (m *machine) setImage(t *testing.T, url, algorithm, value string) {
	t.Helper()
	m.set(t, "/instance_info", map[string]any{
		"image_source": url, "image_os_hash_algo": algorithm, "image_os_hash_value": value,
	})
}

func testLife(t *testing.T, client *gophercloud.ServiceClient) {
	m := enroll(t, client, newBMC(t))
	m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetManage}, nodes.Manageable)
	m.expect(t)

	m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetInspect}, nodes.Manageable)
	m.expect(t)
	testInspected(t, m)

	node := m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetProvide}, nodes.Available)
	m.expect(t, "wipe disk")
	if node.PowerState != "power off" {
		t.Errorf("after cleaning: %s", node.PowerState)
	}

	m.setImage(t, m.bmc.imageURL("good.img"), "sha256", m.bmc.imageURL("good.img.sha256sum"))
	node = m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetActive, ConfigDrive: configDrive}, nodes.Active)
	m.expect(t, "write disk", "insert media", "power on")
	power, disk, media := m.bmc.state()
	if power != "on" || disk != m.bmc.imageURL("good.img") || node.PowerState != "power on" {
		t.Errorf("after the deployment: power %s (Ironic: %s), disk %q", power, node.PowerState, disk)
	}
	testConfigDrive(t, media)

	node = m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetDeleted}, nodes.Available)
	m.expect(t, "power off", "eject media", "wipe disk")
	if node.InstanceInfo["image_source"] != nil {
		t.Errorf("after the end of the deployment: %v", node.InstanceInfo)
	}
}

func testInspected(t *testing.T, m *machine) {
	t.Helper()
	data, err := nodes.GetInventory(t.Context(), m.client, m.id).Extract()
	if err != nil {
		t.Fatalf("reading the inventory: %v", err)
	}
	if data.Inventory.CPU.Count != 4 || data.Inventory.Memory.PhysicalMb != 8192 ||
		!bytes.Contains(data.PluginData.RawMessage, []byte("green")) {
		t.Errorf("inventory %+v, plugin data %s", data.Inventory, data.PluginData.RawMessage)
	}
	want := map[string]any{"cpu_arch": "x86_64", "cpus": "4", "memory_mb": "8192", "local_gb": "100"}
	properties := m.get(t).Properties
	for name, value := range want {
		if properties[name] != value {
			t.Errorf("property %s is %v, want %v", name, properties[name], value)
		}
	}
	pages, err := ports.List(m.client, ports.ListOpts{NodeUUID: m.id}).AllPages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found, err := ports.ExtractPorts(pages)
	if err != nil || len(found) != 1 || found[0].Address != "02:22:00:00:00:21" {
		t.Errorf("ports %+v, %v", found, err)
	}
}

func testConfigDrive(t *testing.T, media string) {
	t.Helper()
	files := readISO(t, media)
	if files["user_data"] != userData {
		t.Errorf("user_data is %q", files["user_data"])
	}
	var metaData map[string]string
	if err := json.Unmarshal([]byte(files["meta_data.json"]), &metaData); err != nil || metaData["local-hostname"] != "m0" {
		t.Errorf("meta_data.json is %q, %v", files["meta_data.json"], err)
	}
	if !strings.Contains(files["network_data.json"], `"eth0"`) {
		t.Errorf("network_data.json is %q", files["network_data.json"])
	}
}

// readISO returns the files of openstack/latest on a config drive, as Ironic sends it: base64, gzip, ISO 9660.
func readISO(t *testing.T, media string) map[string]string {
	t.Helper()
	unpacked, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(media)))
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	disc, err := iso9660.OpenImage(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	folder, err := disc.RootDir()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"openstack", "latest"} {
		children, err := folder.GetChildren()
		if err != nil {
			t.Fatal(err)
		}
		index := slices.IndexFunc(children, func(child *iso9660.File) bool { return child.Name() == name })
		if index < 0 {
			t.Fatalf("no folder %s on the config drive", name)
		}
		folder = children[index]
	}
	children, err := folder.GetChildren()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, child := range children {
		content, err := io.ReadAll(child.Reader())
		if err != nil {
			t.Fatal(err)
		}
		files[child.Name()] = string(content)
	}
	return files
}

func testWrongCredentials(t *testing.T, client *gophercloud.ServiceClient) {
	m := enroll(t, client, newBMC(t))
	m.set(t, "/driver_info/lab_password", "not-the-password")
	node := m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetManage}, nodes.Enroll)
	for _, word := range []string{bmcUser, "password is wrong", m.bmc.server.URL} {
		if !strings.Contains(node.LastError, word) {
			t.Errorf("last_error does not name %q: %s", word, node.LastError)
		}
	}
	if strings.Contains(node.LastError, "not-the-password") {
		t.Errorf("last_error tells the password: %s", node.LastError)
	}
	m.set(t, "/driver_info/lab_password", bmcPassword)
	if node := m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetManage}, nodes.Manageable); node.LastError != "" {
		t.Errorf("last_error stays: %s", node.LastError)
	}
}

func testIncompleteDriverInfo(t *testing.T, client *gophercloud.ServiceClient) {
	for name, test := range map[string]struct {
		path, value, want string
	}{
		"no user name":           {"/driver_info/lab_username", "", "lab_username"},
		"another protocol":       {"/driver_info/lab_address", "ipmi://192.0.2.1", "lab_address"},
		"credentials in the URL": {"/driver_info/lab_address", "http://a:b@192.0.2.1/machines/m0", "must not hold credentials"},
		"nobody answers":         {"/driver_info/lab_address", "http://127.0.0.1:1/machines/m0", "no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			m := enroll(t, client, newBMC(t))
			m.set(t, test.path, test.value)
			node := m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetManage}, nodes.Enroll)
			if !strings.Contains(node.LastError, test.want) {
				t.Errorf("last_error does not name %q: %s", test.want, node.LastError)
			}
		})
	}
}

func testFailingDeployment(t *testing.T, client *gophercloud.ServiceClient) {
	m := available(t, client)
	missing, good, wrong := m.bmc.imageURL("missing.img"), m.bmc.imageURL("good.img"), strings.Repeat("0", 64)

	err := nodes.ChangeProvisionState(t.Context(), client, m.id,
		nodes.ProvisionStateOpts{Target: nodes.TargetActive}).ExtractErr()
	if err == nil || !strings.Contains(err.Error(), "image_source") {
		t.Errorf("deploying without an image: %v", err)
	}

	m.setImage(t, missing, "sha256", wrong)
	node := m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetActive}, nodes.DeployFail)
	if !strings.Contains(node.LastError, missing) || !strings.Contains(node.LastError, "404") {
		t.Errorf("last_error names neither image nor reason: %s", node.LastError)
	}
	m.setImage(t, good, "sha256", m.bmc.imageURL("missing.sums"))
	node = m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetActive}, nodes.DeployFail)
	if !strings.Contains(node.LastError, "missing.sums") {
		t.Errorf("last_error does not name the file of checksums: %s", node.LastError)
	}
	m.setImage(t, good, "sha256", wrong)
	node = m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetActive}, nodes.DeployFail)
	for _, word := range []string{good, wrong, sha256Of(served)} {
		if !strings.Contains(node.LastError, word) {
			t.Errorf("last_error does not name %s: %s", word, node.LastError)
		}
	}
	m.expect(t)

	m.setImage(t, good, "sha256", sha256Of(served))
	m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetActive}, nodes.Active)
	m.expect(t, "write disk", "eject media", "power on")
}

func testChecksums(t *testing.T, client *gophercloud.ServiceClient) {
	m := available(t, client)
	source := m.bmc.imageURL("good.img")
	target := nodes.TargetActive
	for name, info := range map[string]map[string]any{
		"sha512":               {"image_os_hash_algo": "sha512", "image_os_hash_value": sha512Of(served)},
		"value without a type": {"image_checksum": sha256Of(served)},
		"URL without a type":   {"image_checksum": source + ".sha256sum"},
	} {
		t.Run(name, func(t *testing.T) {
			info["image_source"] = source
			m.set(t, "/instance_info", info)
			m.change(t, nodes.ProvisionStateOpts{Target: target}, nodes.Active)
		})
		target = nodes.TargetRebuild
	}
}

func testNoCleaning(t *testing.T, client *gophercloud.ServiceClient) {
	m := enroll(t, client, newBMC(t))
	m.set(t, "/automated_clean", false)
	m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetManage}, nodes.Manageable)
	m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetProvide}, nodes.Available)
	m.expect(t)
	m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetManage}, nodes.Manageable)
	m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetClean, CleanSteps: []nodes.CleanStep{
		{Interface: nodes.InterfaceDeploy, Step: "erase_devices_metadata"},
	}}, nodes.Manageable)
	m.expect(t, "wipe disk")
}

func testPower(t *testing.T, client *gophercloud.ServiceClient) {
	m := available(t, client)
	for _, step := range []struct {
		target  nodes.TargetPowerState
		want    string
		command []string
	}{
		{nodes.PowerOn, "power on", []string{"power on"}},
		{nodes.PowerOn, "power on", nil},
		{nodes.Rebooting, "power on", []string{"power reboot"}},
		{nodes.SoftRebooting, "power on", []string{"power soft-reboot"}},
		{nodes.SoftPowerOff, "power off", []string{"power soft-off"}},
		{nodes.Rebooting, "power on", []string{"power on"}},
		{nodes.PowerOff, "power off", []string{"power off"}},
		{nodes.PowerOn, "power on", []string{"power on"}},
	} {
		node := m.switchPower(t, step.target)
		if node.PowerState != step.want || node.LastError != "" {
			t.Errorf("%s: %s, %s", step.target, node.PowerState, node.LastError)
		}
		m.expect(t, step.command...)
	}
	m.bmc.setStuck()
	node := m.switchPower(t, nodes.SoftPowerOff)
	if node.PowerState != "power on" || !strings.Contains(node.LastError, "does not shut down") {
		t.Errorf("%s: %s, %s", nodes.SoftPowerOff, node.PowerState, node.LastError)
	}
}

func testDisablePowerOff(t *testing.T, client *gophercloud.ServiceClient) {
	m := available(t, client)
	m.switchPower(t, nodes.PowerOn)
	m.set(t, "/disable_power_off", true)
	m.setImage(t, m.bmc.imageURL("good.img"), "sha256", sha256Of(served))
	m.bmc.sent()
	node := m.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetActive}, nodes.DeployFail)
	if !strings.Contains(node.LastError, "disable_power_off") {
		t.Errorf("last_error does not name the reason: %s", node.LastError)
	}
	m.expect(t)
}

// TestAdoption is what a lost database means for a machine that runs: a new node, and not one word to the machine.
func TestAdoption(t *testing.T) {
	first := start(t, Options{Config: Config{PowerSyncSeconds: 1}})
	before := available(t, newClient(t, first))
	before.setImage(t, before.bmc.imageURL("good.img"), "sha256", sha256Of(served))
	before.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetActive, ConfigDrive: configDrive}, nodes.Active)
	before.bmc.sent()
	if err := first.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}

	client := newClient(t, start(t, Options{Config: first.Config, Credentials: first.Credentials}))
	if _, err := nodes.Get(t.Context(), client, before.id).Extract(); !gophercloud.ResponseCodeIs(err, 404) {
		t.Fatalf("the new Ironic knows the node of the old one: %v", err)
	}
	after := enroll(t, client, before.bmc)
	after.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetManage}, nodes.Manageable)
	node := after.change(t, nodes.ProvisionStateOpts{Target: nodes.TargetAdopt}, nodes.Active)
	if node.PowerState != "power on" || node.LastError != "" {
		t.Errorf("after adoption: %s, %s", node.PowerState, node.LastError)
	}
	power, disk, media := after.bmc.state()
	if power != "on" || disk == "" || media == "" {
		t.Errorf("after adoption the machine is %s, disk %q, %d bytes of media", power, disk, len(media))
	}
	after.expect(t)
}
