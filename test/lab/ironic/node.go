package ironic

import "github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"

// Board is a board controller as Ironic's redfish driver names it.
type Board struct {
	// Address is the URL of the service, and System the path of the machine there.
	Address, System string
	// Username and Password are those of the service.
	Username, Password string
}

// RedfishNode is a node as the Baremetal Operator makes it, whose machine boots the agent from virtual media.
func RedfishNode(name string, board Board) nodes.CreateOpts {
	const files = "file://" + ConfigDir + "/"
	return nodes.CreateOpts{
		Driver: "redfish", Name: name, BootInterface: "redfish-virtual-media", DeployInterface: "direct",
		InspectInterface: "agent", ManagementInterface: "redfish", PowerInterface: "redfish",
		Properties: map[string]any{"capabilities": "boot_mode:uefi", "cpu_arch": "x86_64"},
		DriverInfo: map[string]any{
			"redfish_address": board.Address, "redfish_system_id": board.System,
			"redfish_username": board.Username, "redfish_password": board.Password,
			"deploy_kernel": files + KernelFile, "deploy_ramdisk": files + RamdiskFile,
		},
	}
}
