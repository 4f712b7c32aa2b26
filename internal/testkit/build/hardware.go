package build

import (
	"fmt"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
)

// Sizes of each host: a server with two processors.
const (
	nics     = 8
	disks    = 12
	cpuFlags = 180
)

// Inspection returns the results of the inspection of the host with this name and number: about 8 KiB, as on real
// hosts.
func Inspection(name string, number int) *bmov1alpha1.HardwareDetails {
	details := &bmov1alpha1.HardwareDetails{
		SystemVendor: bmov1alpha1.HardwareSystemVendor{
			Manufacturer: "Example Systems", ProductName: "Rack Server 640 (SKU=8067)", SerialNumber: "SER-" + name,
		},
		Firmware: bmov1alpha1.Firmware{BIOS: bmov1alpha1.BIOS{
			Date: "11/30/2025", Vendor: "Example Systems", Version: "2.24.0",
		}},
		RAMMebibytes: 393216,
		Hostname:     name + ".machines.example",
		CPU: bmov1alpha1.CPU{
			Arch: "x86_64", Model: "Example Processor 6252 CPU @ 2.10GHz", ClockMegahertz: 3700, Count: 96,
		},
	}
	for i := range cpuFlags {
		details.CPU.Flags = append(details.CPU.Flags, fmt.Sprintf("feature%d", i))
	}
	for i := range nics {
		details.NIC = append(details.NIC, nic(number, i))
	}
	for i := range disks {
		details.Storage = append(details.Storage, disk(number, i))
	}
	return details
}

func nic(number, i int) bmov1alpha1.NIC {
	found := bmov1alpha1.NIC{
		Name:       fmt.Sprintf("enp%ds0f%d", 24+i/2, i%2),
		Model:      "0x8086 0x159b",
		MAC:        fmt.Sprintf("52:54:%02x:%02x:00:%02x", number>>8, number&0xff, i),
		SpeedGbps:  25,
		PXE:        i == 0,
		PCIAddress: fmt.Sprintf("0000:%02x:00.%d", 24+i/2, i%2),
		LLDP: &bmov1alpha1.LLDP{
			SwitchID: "52:54:00:ff:00:01", PortID: fmt.Sprintf("Ethernet1/%d", i), SwitchSystemName: "leaf-1.example",
		},
	}
	if i < 2 {
		found.IP = fmt.Sprintf("10.%d.%d.%d", i, number>>8, number&0xff)
	}
	return found
}

func disk(number, i int) bmov1alpha1.Storage {
	wwn := fmt.Sprintf("0x5000c500%04x%04x", number, i)
	return bmov1alpha1.Storage{
		Name: "/dev/disk/by-path/pci-0000:18:00.0-scsi-0:2:" + fmt.Sprint(i) + ":0",
		AlternateNames: []string{
			fmt.Sprintf("/dev/sd%c", 'a'+i),
			"/dev/disk/by-id/wwn-" + wwn,
			"/dev/disk/by-path/pci-0000:18:00.0-scsi-0:2:" + fmt.Sprint(i) + ":0",
		},
		Type:         bmov1alpha1.SSD,
		SizeBytes:    1920383410176,
		Vendor:       "EXAMPLE",
		Model:        "ES1920XS70084",
		SerialNumber: fmt.Sprintf("WFK%04d%04d", number, i),
		WWN:          wwn,
		HCTL:         fmt.Sprintf("0:2:%d:0", i),
	}
}
