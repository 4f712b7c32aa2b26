// Package inventory describes the hardware of a machine in the format of ironic-python-agent. Fields without a value
// are null, not omitted.
package inventory

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/network"
)

// Report is the report of an agent.
type Report struct {
	Inventory     inventory     `json:"inventory"`
	RootDisk      storage       `json:"root_disk"`
	BootInterface string        `json:"boot_interface"`
	Configuration configuration `json:"configuration"`
}

type inventory struct {
	Interfaces   []card       `json:"interfaces"`
	CPU          processor    `json:"cpu"`
	Disks        []storage    `json:"disks"`
	Memory       memory       `json:"memory"`
	BMCAddress   *string      `json:"bmc_address"`
	BMCAddress6  *string      `json:"bmc_v6address"`
	SystemVendor systemVendor `json:"system_vendor"`
	Boot         bootInfo     `json:"boot"`
	Hostname     string       `json:"hostname"`
	BMCMAC       *string      `json:"bmc_mac"`
}

type card struct {
	Name        string  `json:"name"`
	MACAddress  string  `json:"mac_address"`
	IPv4Address string  `json:"ipv4_address"`
	IPv6Address string  `json:"ipv6_address"`
	HasCarrier  bool    `json:"has_carrier"`
	LLDP        []any   `json:"lldp"`
	Vendor      string  `json:"vendor"`
	Product     string  `json:"product"`
	ClientID    *string `json:"client_id"`
	BIOSDevName *string `json:"biosdevname"`
	SpeedMbps   int     `json:"speed_mbps"`
	PCIAddress  string  `json:"pci_address"`
	Driver      string  `json:"driver"`
}

type processor struct {
	ModelName    string   `json:"model_name"`
	Frequency    string   `json:"frequency"`
	Count        int      `json:"count"`
	Architecture string   `json:"architecture"`
	Flags        []string `json:"flags"`
	SocketCount  int      `json:"socket_count"`
}

type storage struct {
	Name               string  `json:"name"`
	Model              string  `json:"model"`
	Size               int64   `json:"size"`
	Rotational         bool    `json:"rotational"`
	WWN                string  `json:"wwn"`
	Serial             string  `json:"serial"`
	Vendor             string  `json:"vendor"`
	WWNWithExtension   string  `json:"wwn_with_extension"`
	WWNVendorExtension *string `json:"wwn_vendor_extension"`
	HCTL               string  `json:"hctl"`
	ByPath             string  `json:"by_path"`
	LogicalSectors     int     `json:"logical_sectors"`
	PhysicalSectors    int     `json:"physical_sectors"`
}

type memory struct {
	Total      int64 `json:"total"`
	PhysicalMB int64 `json:"physical_mb"`
}

type systemVendor struct {
	ProductName  string   `json:"product_name"`
	SerialNumber string   `json:"serial_number"`
	Manufacturer string   `json:"manufacturer"`
	Firmware     firmware `json:"firmware"`
}

type firmware struct {
	Vendor    string `json:"vendor"`
	Version   string `json:"version"`
	BuildDate string `json:"build_date"`
}

type bootInfo struct {
	CurrentBootMode string `json:"current_boot_mode"`
	PXEInterface    string `json:"pxe_interface"`
}

type configuration struct {
	Collectors []string          `json:"collectors"`
	Managers   []hardwareManager `json:"managers"`
}

type hardwareManager struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

const (
	// cardSpeed and diskSize are claimed by machines of a lab, and not measured.
	cardSpeed = 10000
	diskSize  = 64 << 30
	mebibyte  = 1 << 20
)

// Of returns the report of a machine: the processors and the memory of this computer, which the system of a machine
// sees, and one disk and one network card. It omits the address of the BMC, which is the same for all machines: Ironic
// would confuse them.
func Of(name string, number byte) (Report, error) {
	var facts unix.Sysinfo_t
	if err := unix.Sysinfo(&facts); err != nil {
		return Report{}, fmt.Errorf("reading the size of the memory: %w", err)
	}
	total := int64(facts.Totalram) * int64(facts.Unit) //nolint:gosec // No computer has so much memory.
	first, disk := cardOf(number), diskOf(number)
	return Report{
		Inventory: inventory{
			Interfaces: []card{first},
			CPU:        processorOf(),
			Disks:      []storage{disk},
			Memory:     memory{Total: total, PhysicalMB: total / mebibyte},
			SystemVendor: systemVendor{
				ProductName: "Lab Machine", SerialNumber: name, Manufacturer: "Lab",
				Firmware: firmware{Vendor: "Lab", Version: "1.0", BuildDate: "01/01/2026"},
			},
			Boot:     bootInfo{CurrentBootMode: "uefi", PXEInterface: first.MACAddress},
			Hostname: name,
		},
		RootDisk:      disk,
		BootInterface: "01-" + strings.ReplaceAll(first.MACAddress, ":", "-"),
		Configuration: configuration{
			Collectors: []string{"default"},
			Managers:   []hardwareManager{{Name: "generic_hardware_manager", Version: "1.2"}},
		},
	}, nil
}

func cardOf(number byte) card {
	return card{
		Name:        "eth0",
		MACAddress:  network.HardwareAddress(number).String(),
		IPv4Address: network.Address4(number).String(),
		IPv6Address: network.Address6(number).String(),
		HasCarrier:  true,
		LLDP:        []any{},
		Vendor:      "0x1af4",
		Product:     "0x0001",
		SpeedMbps:   cardSpeed,
		PCIAddress:  "0000:00:03.0",
		Driver:      "virtio_net",
	}
}

func diskOf(number byte) storage {
	serial := fmt.Sprintf("lab-disk-%d", number)
	wwn := fmt.Sprintf("0x%016x", number)
	return storage{
		Name: "/dev/sda", Model: "Lab Disk", Size: diskSize, WWN: wwn, WWNWithExtension: wwn, Serial: serial,
		Vendor: "Lab", HCTL: "0:0:0:0", ByPath: "/dev/disk/by-path/pci-0000:00:04.0-scsi-0:0:0:0",
		LogicalSectors: 512, PhysicalSectors: 4096,
	}
}

func processorOf() processor {
	architectures := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}
	architecture := architectures[runtime.GOARCH]
	if architecture == "" {
		architecture = runtime.GOARCH
	}
	// On some architectures the file has no such lines, and the report omits them.
	facts, _ := os.ReadFile("/proc/cpuinfo")
	return processor{
		ModelName:    cpuFact(string(facts), "model name"),
		Frequency:    cpuFact(string(facts), "cpu MHz"),
		Count:        runtime.NumCPU(),
		Architecture: architecture,
		Flags:        strings.Fields(cpuFact(string(facts), "flags")),
		SocketCount:  1,
	}
}

// cpuFact returns the first value of a name in /proc/cpuinfo.
func cpuFact(facts, name string) string {
	for line := range strings.Lines(facts) {
		if key, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
