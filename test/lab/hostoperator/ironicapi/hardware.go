package ironicapi

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/inventory"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
)

// megabitsPerGigabit turns speeds of Ironic into those of hosts.
const megabitsPerGigabit = 1000

// hardware tells in the words of a host what an inspection found.
func hardware(found *nodes.InventoryData) *bmov1alpha1.HardwareDetails {
	machine := found.Inventory
	// Without the data of the plugins, it is unknown which interface booted.
	plugins, err := found.PluginData.AsStandardData()
	if err != nil {
		plugins = inventory.StandardPluginData{}
	}
	flags := slices.Clone(machine.CPU.Flags)
	slices.Sort(flags)
	// What is no number counts as unknown.
	frequency, _ := strconv.ParseFloat(machine.CPU.Frequency, 64)
	details := &bmov1alpha1.HardwareDetails{
		SystemVendor: bmov1alpha1.HardwareSystemVendor{
			Manufacturer: machine.SystemVendor.Manufacturer,
			ProductName:  machine.SystemVendor.ProductName,
			SerialNumber: machine.SystemVendor.SerialNumber,
		},
		Firmware: bmov1alpha1.Firmware{BIOS: bmov1alpha1.BIOS{
			Vendor:  machine.SystemVendor.Firmware.Vendor,
			Version: machine.SystemVendor.Firmware.Version,
			Date:    machine.SystemVendor.Firmware.BuildDate,
		}},
		RAMMebibytes: machine.Memory.PhysicalMb,
		CPU: bmov1alpha1.CPU{
			Arch: machine.CPU.Architecture, Model: machine.CPU.ModelName, Count: machine.CPU.Count, Flags: flags,
			ClockMegahertz: bmov1alpha1.ClockSpeed(math.Round(frequency)) * bmov1alpha1.MegaHertz,
		},
		Hostname: machine.Hostname,
	}
	for _, one := range machine.Interfaces {
		details.NIC = append(details.NIC, interfaces(one, plugins.AllInterfaces[one.Name].PXEEnabled)...)
	}
	for _, one := range machine.Disks {
		details.Storage = append(details.Storage, disk(one))
	}
	return details
}

// interfaces are two where an interface has an address of each family, and one otherwise, even without an address.
func interfaces(found inventory.InterfaceType, pxe bool) []bmov1alpha1.NIC {
	nic := bmov1alpha1.NIC{
		Name: found.Name, Model: strings.TrimSpace(found.Vendor + " " + found.Product), MAC: found.MACAddress,
		IP: found.IPV4Address, SpeedGbps: found.SpeedMbps / megabitsPerGigabit, PXE: pxe,
	}
	if found.IPV6Address == "" {
		return []bmov1alpha1.NIC{nic}
	}
	second := nic
	second.IP = found.IPV6Address
	if found.IPV4Address == "" {
		return []bmov1alpha1.NIC{second}
	}
	return []bmov1alpha1.NIC{nic, second}
}

func disk(found inventory.RootDiskType) bmov1alpha1.Storage {
	storage := bmov1alpha1.Storage{
		Name: found.Name, AlternateNames: []string{found.Name}, Type: bmov1alpha1.SSD,
		Rotational: found.Rotational, SizeBytes: bmov1alpha1.Capacity(found.Size),
		Vendor: found.Vendor, Model: found.Model, SerialNumber: found.Serial, HCTL: found.Hctl,
		WWN: found.Wwn, WWNVendorExtension: found.WwnVendorExtension, WWNWithExtension: found.WwnWithExtension,
	}
	switch {
	case found.Rotational:
		storage.Type = bmov1alpha1.HDD
	case strings.HasPrefix(found.Name, "/dev/nvme"):
		storage.Type = bmov1alpha1.NVME
	}
	if found.ByPath != "" {
		// A path stays the same where a name may change between two boots.
		storage.Name = found.ByPath
		storage.AlternateNames = append(storage.AlternateNames, found.ByPath)
	}
	return storage
}
