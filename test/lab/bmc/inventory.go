package bmc

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/network"
)

// The report of an agent, in the words of ironic-python-agent. Fields without a value are null there, not left out.

type report struct {
	Inventory  inventory  `json:"inventory"`
	PluginData pluginData `json:"plugin_data"`
}

type inventory struct {
	Interfaces   []card       `json:"interfaces"`
	CPU          processor    `json:"cpu"`
	Disks        []storage    `json:"disks"`
	Memory       memory       `json:"memory"`
	BMCAddress   string       `json:"bmc_address"`
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

type pluginData struct {
	RootDisk        storage                  `json:"root_disk"`
	BootInterface   string                   `json:"boot_interface"`
	Configuration   configuration            `json:"configuration"`
	MACs            []string                 `json:"macs"`
	AllInterfaces   map[string]processedCard `json:"all_interfaces"`
	ValidInterfaces map[string]processedCard `json:"valid_interfaces"`
}

type processedCard struct {
	card
	PXEEnabled bool `json:"pxe_enabled"`
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
	// cardSpeed and diskSize are what machines of a lab claim. Nothing measures them.
	cardSpeed = 10000
	diskSize  = 64 << 30
	mebibyte  = 1 << 20
)

// inventoryOf reports the processors and the memory of this computer, because that is what the system of a machine
// sees, and one disk and one network card of its own.
func inventoryOf(controller *controller) (report, error) {
	var facts unix.Sysinfo_t
	if err := unix.Sysinfo(&facts); err != nil {
		return report{}, fmt.Errorf("asking how much memory there is: %w", err)
	}
	total := int64(facts.Totalram) * int64(facts.Unit) //nolint:gosec // No computer has so much memory.
	port := controller.machine.Port()
	first, disk := cardOf(port), diskOf(port)
	processed := map[string]processedCard{first.Name: {card: first, PXEEnabled: true}}
	return report{
		Inventory: inventory{
			Interfaces: []card{first},
			CPU:        processorOf(),
			Disks:      []storage{disk},
			Memory:     memory{Total: total, PhysicalMB: total / mebibyte},
			BMCAddress: network.Gateway4,
			SystemVendor: systemVendor{
				ProductName: "Lab Machine", SerialNumber: controller.name, Manufacturer: "Lab",
				Firmware: firmware{Vendor: "Lab", Version: "1.0", BuildDate: "01/01/2026"},
			},
			Boot:     bootInfo{CurrentBootMode: "uefi", PXEInterface: first.MACAddress},
			Hostname: controller.name,
		},
		PluginData: pluginData{
			RootDisk:      disk,
			BootInterface: first.MACAddress,
			Configuration: configuration{
				Collectors: []string{"default"},
				Managers:   []hardwareManager{{Name: "generic_hardware_manager", Version: "1.2"}},
			},
			MACs:            []string{first.MACAddress},
			AllInterfaces:   processed,
			ValidInterfaces: processed,
		},
	}, nil
}

func cardOf(port network.Port) card {
	return card{
		Name:        "eth0",
		MACAddress:  network.HardwareAddress(port.Number).String(),
		IPv4Address: network.Address4(port.Number).String(),
		IPv6Address: network.Address6(port.Number).String(),
		HasCarrier:  true,
		LLDP:        []any{},
		Vendor:      "0x1af4",
		Product:     "0x0001",
		SpeedMbps:   cardSpeed,
		PCIAddress:  "0000:00:03.0",
		Driver:      "virtio_net",
	}
}

func diskOf(port network.Port) storage {
	serial := fmt.Sprintf("lab-disk-%d", port.Number)
	wwn := fmt.Sprintf("0x%016x", port.Number)
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
	// Where the file has no such lines, as on some architectures, the report goes without.
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

// cpuFact finds the first value of a name in /proc/cpuinfo.
func cpuFact(facts, name string) string {
	for line := range strings.Lines(facts) {
		if key, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
