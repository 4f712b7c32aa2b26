package ironic

import "github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"

// BMC is a BMC in the format of Ironic's redfish driver.
type BMC struct {
	// Address is the URL of the service, and System the path of the machine there.
	Address, System string
	// Username and Password of the service.
	Username, Password string
}

// RedfishNode returns a node as BMO creates it, whose machine boots the agent from virtual media.
func RedfishNode(name string, bmc BMC) nodes.CreateOpts {
	const files = "file://" + ConfigDir + "/"
	return nodes.CreateOpts{
		Driver: "redfish", Name: name, BootInterface: "redfish-virtual-media", DeployInterface: "direct",
		InspectInterface: "agent", ManagementInterface: "redfish", PowerInterface: "redfish",
		Properties: map[string]any{"capabilities": "boot_mode:uefi", "cpu_arch": "x86_64"},
		DriverInfo: map[string]any{
			"redfish_address": bmc.Address, "redfish_system_id": bmc.System,
			"redfish_username": bmc.Username, "redfish_password": bmc.Password,
			"deploy_kernel": files + KernelFile, "deploy_ramdisk": files + RamdiskFile,
		},
	}
}
